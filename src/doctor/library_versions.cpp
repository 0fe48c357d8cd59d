#include "doctor/library_versions.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <vector>

namespace trainctl::doctor {
namespace {

// The wheel that brings a library, as its folder of facts begins:
// "nvidia_cublas-13.1.0.3.dist-info" or, for an older CUDA, "nvidia_cublas_cu12-…".
struct Wheel {
  const char* object_prefix;
  const char* package;
};
constexpr Wheel kWheels[] = {
    {"libcudart", "nvidia_cuda_runtime"}, {"libcupti", "nvidia_cuda_cupti"},
    {"libcudnn", "nvidia_cudnn"},         {"libnccl", "nvidia_nccl"},
    {"libcublas", "nvidia_cublas"},       {"libcufft", "nvidia_cufft"},
    {"libcufile", "nvidia_cufile"},       {"libcurand", "nvidia_curand"},
    {"libcusolver", "nvidia_cusolver"},   {"libcusparseLt", "nvidia_cusparselt"},
    {"libcusparse", "nvidia_cusparse"},   {"libnvshmem", "nvidia_nvshmem"},
    {"libnvJitLink", "nvidia_nvjitlink"}, {"libnvrtc", "nvidia_cuda_nvrtc"},
};

bool is_version(const std::string& text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
}

// What stands after ".so." of the file a link leads to, when it is more than the SONAME's number.
std::string from_file_name(const fs::path& path) {
  std::error_code error;
  const std::string name = fs::canonical(path, error).filename().string();
  const size_t at = name.find(".so.");
  const std::string version = at == std::string::npos ? "" : name.substr(at + 4);
  return is_version(version) && version.find('.') != std::string::npos ? version : "";
}

std::string from_header(const fs::path& header, const std::vector<std::string>& names) {
  std::ifstream in(header);
  std::vector<std::string> parts(names.size());
  std::string word, name, value;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("#define ")) continue;
    const size_t begin = 8;
    const size_t end = line.find_first_of(" \t", begin);
    if (end == std::string::npos) continue;
    const auto known = std::find(names.begin(), names.end(), line.substr(begin, end - begin));
    if (known == names.end()) continue;
    const size_t from = line.find_first_not_of(" \t", end);
    if (from == std::string::npos) continue;
    parts[static_cast<size_t>(known - names.begin())] =
        std::to_string(std::strtol(line.c_str() + from, nullptr, 10));
  }
  std::string version;
  for (const std::string& part : parts) {
    if (part.empty()) return "";
    version += (version.empty() ? "" : ".") + part;
  }
  return version;
}

std::string from_wheel(const fs::path& path) {
  const std::string file = path.filename().string();
  const Wheel* wheel = nullptr;
  for (const Wheel& row : kWheels) {
    if (file.starts_with(row.object_prefix) && wheel == nullptr) wheel = &row;
  }
  fs::path packages = path.parent_path();
  while (packages.has_relative_path() && packages.filename() != "nvidia") {
    packages = packages.parent_path();
  }
  if (wheel == nullptr || packages.filename() != "nvidia") return "";
  std::error_code error;
  for (fs::directory_iterator entry(packages.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const size_t dash = name.find('-');
    if (!name.ends_with(".dist-info") || dash == std::string::npos) continue;
    const std::string package = name.substr(0, dash);
    const std::string plain = wheel->package;
    if (package != plain && !package.starts_with(plain + "_cu")) continue;
    return name.substr(dash + 1, name.size() - dash - 1 - std::string(".dist-info").size());
  }
  return "";
}

}  // namespace

LibTorchVersion version_of_libtorch(const fs::path& libtorch_cpu) {
  std::error_code error;
  const fs::path folder = fs::canonical(libtorch_cpu, error).parent_path().parent_path();
  LibTorchVersion found;
  std::ifstream in(folder / "version.py");
  for (std::string line; std::getline(in, line);) {
    const size_t open = line.find(" = '");
    const size_t close = line.rfind('\'');
    if (open == std::string::npos || close <= open + 4) continue;
    const std::string value = line.substr(open + 4, close - open - 4);
    if (line.starts_with("__version__")) found.version = value;
    if (line.starts_with("cuda:") || line.starts_with("cuda =")) found.cuda = value;
  }
  if (found.version.empty()) {
    std::ifstream(folder / "build-version") >> found.version;  // the archive from pytorch.org
    const size_t tag = found.version.find("+cu");
    const std::string digits = tag == std::string::npos ? "" : found.version.substr(tag + 3);
    if (digits.size() >= 3) {
      found.cuda = digits.substr(0, digits.size() - 1);
      found.cuda += "." + digits.substr(digits.size() - 1);
    }
  }
  return found;
}

std::string version_of_library(const fs::path& path) {
  const std::string name = path.filename().string();
  if (name.starts_with("libtorch") || name.starts_with("libc10")) {
    return version_of_libtorch(path).version;
  }
  std::string version = from_file_name(path);
  const fs::path include = path.parent_path().parent_path() / "include";
  if (version.empty() && name.starts_with("libcudnn")) {
    version = from_header(include / "cudnn_version.h",
                          {"CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL"});
  }
  if (version.empty() && name.starts_with("libnccl")) {
    version = from_header(include / "nccl.h", {"NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"});
  }
  return version.empty() ? from_wheel(path) : version;
}

int compare_versions(const std::string& a, const std::string& b) {
  const auto next = [](const std::string& text, size_t* at) {
    const long part = *at < text.size() ? std::strtol(text.c_str() + *at, nullptr, 10) : 0;
    const size_t dot = text.find('.', *at);
    *at = dot == std::string::npos ? text.size() : dot + 1;
    return part;
  };
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const long x = next(a, &i), y = next(b, &j);
    if (x != y) return x < y ? -1 : 1;
  }
  return 0;
}

}  // namespace trainctl::doctor
