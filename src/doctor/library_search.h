// Finds shared objects as the dynamic loader would (ld.so(8), "RPATH, LD_LIBRARY_PATH, RUNPATH,
// ld.so.cache, default folders"), without loading any: so that all that is missing is named at
// once, and a damaged one harms nobody.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "doctor/elf_file.h"

namespace trainctl::doctor {

struct FoundObject {
  std::string name;        // as it was asked for: "libcudart.so.13"
  std::string path;        // empty: not found
  std::string rule;        // why there: "RUNPATH of libtrainctl_engine.so", "LD_LIBRARY_PATH" …
  std::string needed_by;   // the first that asks, by name
  std::string instead_of;  // what would be found without LD_LIBRARY_PATH, where that is another
  ElfFile elf;
  std::vector<NeededVersion> missing_versions;  // symbol versions that what was found lacks
  int loader = -1;                              // index of the object that asked first
};

class LibrarySearch {
 public:
  // `library_path` as in LD_LIBRARY_PATH; `root` is where ld.so.cache and default folders lie.
  LibrarySearch(std::string library_path, fs::path root = "/");

  // An object by its path and everything it needs, first the near ones, as dlopen would; `loader`
  // is the object that calls dlopen. Returns its index.
  int open(const fs::path& path, int loader);
  // As dlopen by name from the object `loader`.
  int open_by_name(const std::string& name, int loader);

  const std::vector<FoundObject>& objects() const { return objects_; }
  const FoundObject* find(const std::string& name) const;

 private:
  struct Place {
    std::string path, rule;
  };
  int add(FoundObject object);
  int add_by_name(const std::string& name, int loader);
  void load_dependencies(int first);
  Place locate(const std::string& name, int loader, bool with_library_path) const;
  Place in_folders(const std::string& name, const std::string& list, const std::string& origin,
                   const std::string& rule) const;
  Place in_system(const std::string& name) const;
  void check_versions();

  std::string library_path_;
  fs::path root_;
  std::multimap<std::string, std::string> cache_;
  std::vector<FoundObject> objects_;
  std::map<std::string, int> by_name_;
};

}  // namespace trainctl::doctor
