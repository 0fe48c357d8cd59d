// From the paths and globs of a config to the files they name.
#include <algorithm>
#include <set>

#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/base/strings.h"
#include "trainctl/text/byte_corpus.h"

namespace trainctl {
namespace {

std::string working_directory() {
  std::error_code error;
  const fs::path path = fs::current_path(error);
  return error ? "(removed)" : path.string();
}

bool has_wildcard(const std::string& pattern) {
  return pattern.find_first_of("*?[") != std::string::npos;
}

// " (did you mean …?)", from the names in the folder where the file should be.
std::string nearest_name(const fs::path& path) {
  std::vector<std::string> names;
  std::error_code error;
  const fs::path folder = path.parent_path();
  for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end; !error && it != end;
       it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());  // the folder's own order is arbitrary
  const auto name = nearest(path.filename().string(), names);
  return name ? "; did you mean '" + (folder / *name).string() + "'?" : "";
}

[[noreturn]] void fail_missing(const std::string& key, const fs::path& path) {
  const std::string where =
      path.is_relative() ? " (relative to the working directory " + working_directory() + ")" : "";
  const std::string near = nearest_name(path);
  throw data_error(key + ": file '" + path.string() + "' does not exist" + where +
                   (near.empty() ? "; correct the path" : near));
}

void check_regular(const std::string& key, const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) fail_missing(key, path);
  if (status.type() == fs::file_type::none)
    throw data_error(key + ": cannot reach '" + path.string() + "': " + error.message());
  if (fs::is_directory(status))
    throw data_error(key + ": '" + path.string() + "' is a folder; name its files, for example '" +
                     (path / "**" / "*.txt").string() + "'");
  if (!fs::is_regular_file(status))
    throw data_error(
        key + ": '" + path.string() +
        "' is no regular file; a resumed run reads its data again, so put it in a file");
}

std::vector<TextFile> files_of(const std::string& pattern, const std::string& key) {
  // A file may have a name such as `part[1].txt`: what exists is taken as it is.
  std::error_code error;
  if (!has_wildcard(pattern) || fs::exists(pattern, error)) {
    check_regular(key, pattern);
    return {{pattern, false}};
  }
  std::vector<TextFile> files;
  for (const fs::path& path : expand_glob(pattern)) {
    if (!fs::is_directory(path, error)) files.push_back({path, true});
  }
  if (files.empty()) {
    const std::string where =
        fs::path(pattern).is_relative()
            ? " (searched from the working directory " + working_directory() + ")"
            : "";
    throw data_error(key + ": no file matches '" + pattern + "'" + where +
                     "; correct the pattern, '**' stands for any depth of folders");
  }
  for (const TextFile& file : files) check_regular(key, file.path);
  return files;
}

}  // namespace

std::vector<TextFile> resolve_text_files(const std::vector<std::string>& patterns,
                                         const std::string& key) {
  std::vector<TextFile> files;
  std::set<fs::path> seen;
  for (const std::string& pattern : patterns) {
    for (TextFile& file : files_of(pattern, key)) {
      std::error_code error;
      const fs::path canonical = fs::canonical(file.path, error);
      if (seen.insert(error ? file.path : canonical).second) files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace trainctl
