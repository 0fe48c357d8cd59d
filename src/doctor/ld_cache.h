// /etc/ld.so.cache, as glibc writes it, and the folders glibc looks into for this processor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl::doctor {

// Paths by SONAME, those for this processor in the loader's order; empty where there is none.
std::multimap<std::string, std::string> read_ld_cache(const fs::path& path);

// "glibc-hwcaps/x86-64-v3/" … and "", best first.
const std::vector<std::string>& hardware_folders();

}  // namespace trainctl::doctor
