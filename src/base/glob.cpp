#include <fnmatch.h>

#include <algorithm>
#include <set>

#include "trainctl/base/files.h"

namespace trainctl {
namespace {

bool has_wildcard(const std::string& part) {
  return part.find_first_of("*?[") != std::string::npos;
}

void descend(const fs::path& folder, const std::vector<std::string>& parts, size_t next,
             std::set<fs::path>& found);

// `**`: no folder, or any number of them. Links to folders are not followed, or a cycle would never
// end.
void match_any_depth(const fs::path& folder, const std::vector<std::string>& parts, size_t next,
                     std::set<fs::path>& found) {
  descend(folder, parts, next, found);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] == '.' || !entry.is_directory(error) || entry.is_symlink(error)) continue;
    match_any_depth(folder / name, parts, next, found);
  }
}

void descend(const fs::path& folder, const std::vector<std::string>& parts, size_t next,
             std::set<fs::path>& found) {
  std::error_code error;
  if (next == parts.size()) {
    if (fs::is_regular_file(folder, error)) found.insert(folder);
    return;
  }
  const std::string& part = parts[next];
  if (part == "**") {
    if (next + 1 == parts.size()) {
      static const std::vector<std::string> any_file = {"*"};
      match_any_depth(folder, any_file, 0, found);
    } else {
      match_any_depth(folder, parts, next + 1, found);
    }
    return;
  }
  if (!has_wildcard(part)) {
    if (fs::exists(folder / part, error)) descend(folder / part, parts, next + 1, found);
    return;
  }
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    const std::string name = entry.path().filename().string();
    if (::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0)
      descend(folder / name, parts, next + 1, found);
  }
}

}  // namespace

std::vector<fs::path> expand_glob(const std::string& pattern) {
  if (!has_wildcard(pattern)) return {fs::path(pattern)};
  const fs::path path(pattern);
  std::vector<std::string> parts;
  for (const auto& part : path.relative_path()) {
    if (!part.empty()) parts.push_back(part.string());
  }
  std::set<fs::path> found;
  descend(path.root_path(), parts, 0, found);
  return {found.begin(), found.end()};
}

}  // namespace trainctl
