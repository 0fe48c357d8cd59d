#include "doctor/library_search.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "doctor/ld_cache.h"

namespace trainctl::doctor {
namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void replace_all(std::string* text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text->find(what, at)) != std::string::npos; at += by.size()) {
    text->replace(at, what.size(), by);
  }
}

std::vector<std::string> folders_of(const std::string& list, const std::string& origin) {
  std::vector<std::string> folders;
  for (size_t begin = 0;;) {
    const size_t end = list.find_first_of(":;", begin);
    std::string folder = list.substr(begin, end == std::string::npos ? end : end - begin);
    for (const char* name : {"$ORIGIN", "${ORIGIN}"}) replace_all(&folder, name, origin);
    for (const char* name : {"$PLATFORM", "${PLATFORM}"}) replace_all(&folder, name, "x86_64");
    std::error_code error;
    const bool debian = fs::exists("/lib/x86_64-linux-gnu", error);
    for (const char* name : {"$LIB", "${LIB}"})
      replace_all(&folder, name, debian ? "lib/x86_64-linux-gnu" : "lib64");
    folders.push_back(folder.empty() ? "." : folder);
    if (end == std::string::npos) return folders;
    begin = end + 1;
  }
}

// The loader takes the first file that it can open and that is not for another machine.
bool loader_takes(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_directory(path, error) && !read_elf(path).foreign;
}

}  // namespace

LibrarySearch::LibrarySearch(std::string library_path, fs::path root)
    : library_path_(std::move(library_path)),
      root_(std::move(root)),
      cache_(read_ld_cache(root_ / "etc/ld.so.cache")) {}

const FoundObject* LibrarySearch::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &objects_[static_cast<size_t>(found->second)];
}

int LibrarySearch::add(FoundObject object) {
  const int index = static_cast<int>(objects_.size());
  if (!object.path.empty()) object.elf = read_elf(object.path);
  by_name_.emplace(object.name, index);
  // An object that is loaded serves everyone who asks for its SONAME.
  if (!object.elf.soname.empty()) by_name_.emplace(object.elf.soname, index);
  objects_.push_back(std::move(object));
  return index;
}

int LibrarySearch::open(const fs::path& path, int loader) {
  FoundObject object;
  object.name = path.filename().string();
  object.path = path.string();
  object.rule = "its path";
  object.loader = loader;
  const int index = add(std::move(object));
  load_dependencies(index);
  return index;
}

int LibrarySearch::open_by_name(const std::string& name, int loader) {
  if (const auto known = by_name_.find(name); known != by_name_.end()) return known->second;
  const int index = add_by_name(name, loader);
  load_dependencies(index);
  return index;
}

int LibrarySearch::add_by_name(const std::string& name, int loader) {
  const Place place = locate(name, loader, true);
  FoundObject object;
  object.name = name;
  object.path = place.path;
  object.rule = place.rule;
  object.loader = loader;
  if (loader >= 0) object.needed_by = objects_[static_cast<size_t>(loader)].name;
  if (place.rule == "LD_LIBRARY_PATH") {
    const Place other = locate(name, loader, false);
    std::error_code error;
    if (!other.path.empty() && !fs::equivalent(other.path, place.path, error)) {
      object.instead_of = other.path;
    }
  }
  return add(std::move(object));
}

void LibrarySearch::load_dependencies(int first) {
  // Breadth first, as the loader does: that decides whose RUNPATH finds what several need.
  std::vector<int> queue = {first};
  for (size_t i = 0; i < queue.size(); ++i) {
    const std::vector<std::string> needed = objects_[static_cast<size_t>(queue[i])].elf.needed;
    for (const std::string& name : needed) {
      if (!by_name_.contains(name)) queue.push_back(add_by_name(name, queue[i]));
    }
  }
  check_versions();
}

LibrarySearch::Place LibrarySearch::locate(const std::string& name, int loader,
                                           bool with_library_path) const {
  if (name.find('/') != std::string::npos) {
    return loader_takes(name) ? Place{name, "its path"} : Place{};
  }
  const auto object = [this](int index) -> const FoundObject& {
    return objects_[static_cast<size_t>(index)];
  };
  const auto origin = [](const FoundObject& of) {
    return fs::path(of.path).parent_path().string();
  };
  if (loader >= 0 && object(loader).elf.runpath.empty()) {
    for (int at = loader; at >= 0; at = object(at).loader) {
      if (object(at).elf.rpath.empty()) continue;
      Place place = in_folders(name, object(at).elf.rpath, origin(object(at)),
                               "RPATH of " + base_name(object(at).name));
      if (!place.path.empty()) return place;
    }
  }
  if (with_library_path && !library_path_.empty()) {
    Place place = in_folders(name, library_path_, "", "LD_LIBRARY_PATH");
    if (!place.path.empty()) return place;
  }
  if (loader >= 0 && !object(loader).elf.runpath.empty()) {
    Place place = in_folders(name, object(loader).elf.runpath, origin(object(loader)),
                             "RUNPATH of " + base_name(object(loader).name));
    if (!place.path.empty()) return place;
  }
  return in_system(name);
}

LibrarySearch::Place LibrarySearch::in_folders(const std::string& name, const std::string& list,
                                               const std::string& origin,
                                               const std::string& rule) const {
  for (const std::string& folder : folders_of(list, origin)) {
    for (const std::string& below : hardware_folders()) {
      std::string path = folder;
      path += "/" + below + name;
      if (loader_takes(path)) return {path, rule};
    }
  }
  return {};
}

LibrarySearch::Place LibrarySearch::in_system(const std::string& name) const {
  const auto [begin, end] = cache_.equal_range(name);
  for (auto entry = begin; entry != end; ++entry) {
    const std::string path = (root_ / fs::path(entry->second).relative_path()).string();
    if (loader_takes(path)) return {path, "ld.so.cache"};
  }
  for (const char* folder : {"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64",
                             "usr/lib64", "lib", "usr/lib"}) {
    const std::string path = (root_ / folder / name).string();
    if (loader_takes(path)) return {path, "the system's folders"};
  }
  return {};
}

void LibrarySearch::check_versions() {
  for (FoundObject& object : objects_) {
    object.missing_versions.clear();
    for (const NeededVersion& needed : object.elf.needed_versions) {
      const FoundObject* from = find(needed.object);
      // An object without any versions takes all symbols, says the loader.
      if (from == nullptr || from->elf.defined_versions.empty()) continue;
      const auto& defined = from->elf.defined_versions;
      if (std::find(defined.begin(), defined.end(), needed.version) == defined.end()) {
        object.missing_versions.push_back(needed);
      }
    }
  }
}

}  // namespace trainctl::doctor
