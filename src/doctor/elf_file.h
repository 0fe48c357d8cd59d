// What the dynamic loader reads of a shared object, read without loading it. The file may be
// damaged, cut short or no library at all: then `problem` says so and the rest is empty.
#pragma once

#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl::doctor {

struct NeededVersion {
  std::string object;   // "libstdc++.so.6"
  std::string version;  // "GLIBCXX_3.4.29"
};

struct ElfFile {
  std::string problem;
  bool foreign = false;  // a sound file for another machine, which the loader passes over
  std::string soname;
  std::vector<std::string> needed;
  std::string rpath, runpath;  // as written; an object with a RUNPATH has no RPATH that counts
  std::vector<NeededVersion> needed_versions;
  std::vector<std::string> defined_versions;
};

ElfFile read_elf(const fs::path& path);

}  // namespace trainctl::doctor
