// Shared libraries: what is gathered. The probes over it are in library_probes.cpp.
#include <algorithm>
#include <cstdlib>

#include "doctor/groups.h"
#include "doctor/library_probes.h"
#include "doctor/library_search.h"
#include "doctor/library_versions.h"
#include "trainctl/base/installation.h"
#include "trainctl/base/shared_objects.h"
#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// cuDNN loads its parts by name when they are first used.
constexpr const char* kCudnnParts[] = {"libcudnn_graph",
                                       "libcudnn_ops",
                                       "libcudnn_cnn",
                                       "libcudnn_adv",
                                       "libcudnn_heuristic",
                                       "libcudnn_engines_runtime_compiled",
                                       "libcudnn_engines_precompiled"};

void open_cudnn_parts(LibrarySearch* search) {
  const auto& objects = search->objects();
  for (size_t i = 0; i < objects.size(); ++i) {
    const std::string name = objects[i].name;
    if (!name.starts_with("libcudnn.so.") || objects[i].path.empty()) continue;
    for (const char* part : kCudnnParts) {
      search->open_by_name(part + name.substr(std::string("libcudnn").size()), static_cast<int>(i));
    }
    return;
  }
}

std::string newest_version(const FoundObject* object, const std::string& prefix) {
  std::string newest;
  if (object == nullptr) return newest;
  for (const std::string& version : object->elf.defined_versions) {
    if (!version.starts_with(prefix)) continue;
    const std::string number = version.substr(prefix.size());
    if (number.empty() || std::isdigit(static_cast<unsigned char>(number[0])) == 0) continue;
    if (newest.empty() || compare_versions(newest, number) < 0) newest = number;
  }
  return newest;
}

LibraryObject describe(const FoundObject& object, bool for_engine) {
  LibraryObject out;
  out.path = object.path;
  out.rule = object.rule;
  out.needed_by = object.needed_by;
  out.for_engine = for_engine;
  out.problem = object.elf.problem;
  if (object.path.empty()) {
    out.brought_by = provider_of(object.name);
    return out;
  }
  out.version = version_of_library(object.path);
  out.instead_of = object.instead_of;
  if (!object.instead_of.empty()) out.instead_version = version_of_library(object.instead_of);
  for (const NeededVersion& version : object.missing_versions) {
    out.missing_versions.push_back(version.object + ": " + version.version);
  }
  return out;
}

std::string find_program(const char* name, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    if (folder.empty()) continue;
    const fs::path path = fs::path(folder) / name;
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path.string();
  }
  return "";
}

std::vector<std::string> path_folders() {
  std::vector<std::string> folders;
  std::string path = variable("PATH");
  for (size_t begin = 0;;) {
    const size_t end = path.find(':', begin);
    folders.push_back(path.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return folders;
    begin = end + 1;
  }
}

// The CUDA LibTorch is built for: its version file, else the CUDA runtime its CPU part links.
int built_cuda(const LibrarySearch& search, const LibTorchVersion& torch) {
  const size_t dot = torch.cuda.find('.');
  if (dot != std::string::npos) {
    return static_cast<int>(std::strtol(torch.cuda.c_str(), nullptr, 10)) * 1000 +
           static_cast<int>(std::strtol(torch.cuda.c_str() + dot + 1, nullptr, 10)) * 10;
  }
  for (const FoundObject& object : search.objects()) {
    const size_t so = object.name.find(".so.");
    if (!object.name.starts_with("libcudart") || so == std::string::npos) continue;
    return static_cast<int>(std::strtol(object.name.c_str() + so + 4, nullptr, 10)) * 1000;
  }
  return 0;
}

Json gather(const DoctorOptions&) {
  LibraryEvidence out;
  const EngineSearch engine = search_engine();
  out.engine = engine.path.string();
  out.engine_tried = join(engine.tried, ", ");
  out.library_path = variable("LD_LIBRARY_PATH");

  LibrarySearch search(out.library_path);
  const int program = search.open("/proc/self/exe", -1);
  size_t for_engine = search.objects().size();
  if (!out.engine.empty()) {
    const int opened = search.open(engine.path, program);
    for_engine = search.objects().size();
    const fs::path unit = engine.path.parent_path() / kCudaUnitLibrary;
    std::error_code error;
    if (fs::exists(unit, error)) {
      out.cuda_unit = unit.string();
      search.open(unit, opened);
      open_cudnn_parts(&search);
    }
  }
  for (size_t i = 1; i < search.objects().size(); ++i) {  // without the program itself
    const FoundObject& object = search.objects()[i];
    out.objects[object.name] = describe(object, i < for_engine);
  }
  out.glibc = newest_version(search.find("libc.so.6"), "GLIBC_");
  out.glibcxx = newest_version(search.find("libstdc++.so.6"), "GLIBCXX_");
  if (const FoundObject* torch = search.find("libtorch_cpu.so"); torch && !torch->path.empty()) {
    const LibTorchVersion version = version_of_libtorch(torch->path);
    out.libtorch = version.version;
    out.runtime_cuda = built_cuda(search, version);
  }
  std::vector<std::string> tools = path_folders();
  out.compiler = find_program("c++", tools);
  if (out.compiler.empty()) out.compiler = find_program("g++", tools);
  tools.insert(tools.begin(),
               {variable("CUDA_HOME") + "/bin", variable("CUDAToolkit_ROOT") + "/bin"});
  tools.emplace_back("/usr/local/cuda/bin");
  out.nvcc = find_program("nvcc", tools);
  return to_evidence(out);
}

}  // namespace

Group libraries_group() { return {"libraries", gather, library_probes(), true}; }

}  // namespace trainctl::doctor
