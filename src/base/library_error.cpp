#include "trainctl/base/library_error.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kFullGpu =
    512 * kMiB;  // cuDNN's and cuBLAS's handles and workspaces want as much
constexpr uint64_t kSmallShm = 128 * kMiB;  // NCCL takes about 33 MB for each pair of GPUs
constexpr uint64_t kSmallLock = 64 * kMiB;

std::optional<uint64_t> limit_of(__rlimit_resource resource) {
  rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> folders_of_loaded(const fs::path& maps, std::string_view library) {
  std::vector<std::string> folders;
  std::ifstream in(maps);
  for (std::string line; std::getline(in, line);) {
    const size_t slash = line.find('/');
    if (slash == std::string::npos) continue;
    const fs::path object = line.substr(slash);
    if (!object.filename().string().starts_with(library)) continue;
    const std::string folder = object.parent_path().string();
    if (std::find(folders.begin(), folders.end(), folder) == folders.end())
      folders.push_back(folder);
  }
  return folders;
}

uint64_t mapped_bytes(const fs::path& status) {
  std::ifstream in(status);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("VmSize:")) return std::strtoull(line.c_str() + 7, nullptr, 10) * 1024;
  }
  return 0;
}

std::string bytes_or(const std::optional<uint64_t>& bytes, const char* none) {
  return bytes ? human_bytes(*bytes) : none;
}

std::string or_unset(const std::string& value) { return value.empty() ? "not set" : value; }

Facts facts_of(const ErrorEvidence& e) {
  return {{"limit", bytes_or(e.address_space_limit, "without limit")},
          {"used", human_bytes(e.address_space_used)},
          {"folders", e.cudnn_folders.empty() ? "see what LD_LIBRARY_PATH names"
                                              : join(e.cudnn_folders, " and ")},
          {"free", bytes_or(e.gpu_free, "not known how much")},
          {"shm", e.shm_size ? human_bytes(*e.shm_size) + ", " +
                                   human_bytes(e.shm_free.value_or(0)) + " free"
                             : "not there"},
          {"nofile", e.open_files ? std::to_string(*e.open_files) : "unlimited"},
          {"memlock", bytes_or(e.locked_memory, "unlimited")},
          {"ifname", or_unset(e.nccl_interface)},
          {"gloo_ifname", or_unset(e.gloo_interface)}};
}

// Errors that several causes share, and what tells them apart.
struct Decision {
  const char* said;  // the row that the text alone leads to
  bool (*holds)(const ErrorEvidence& evidence);
  const char* meant;
};
constexpr Decision kDecisions[] = {
    {"cudnn-not-initialized", [](const ErrorEvidence& e) { return e.cudnn_folders.size() > 1; },
     "cudnn-mixed"},
    {"cudnn-not-initialized",
     [](const ErrorEvidence& e) { return e.gpu_free && *e.gpu_free < kFullGpu; },
     "cudnn-out-of-memory"},
    {"cublas-not-initialized",
     [](const ErrorEvidence& e) { return e.gpu_free && *e.gpu_free < kFullGpu; },
     "cudnn-out-of-memory"},
    {"nccl-system-error",
     [](const ErrorEvidence& e) { return !e.shm_size || e.shm_free.value_or(0) < kSmallShm; },
     "nccl-shared-memory"},
    {"nccl-system-error",
     [](const ErrorEvidence& e) {
       return e.infiniband && e.locked_memory && *e.locked_memory < kSmallLock;
     },
     "nccl-infiniband"},
    // What is left below a limit of gigabytes is never used up to the last byte.
    {"cpu-out-of-memory", [](const ErrorEvidence& e) { return e.address_space_limit.has_value(); },
     "address-space-limit"},
};

const ExplanationRow* row_named(std::string_view id) {
  for (const ExplanationGroup& group : explanation_groups()) {
    for (const ExplanationRow& row : group.rows) {
      if (id == row.id) return &row;
    }
  }
  return nullptr;
}

// "NCCL error in: /src/x.cpp:93, unhandled …", "[/src/pair.cc:538] Connection …" and "[enforce fail
// at alloc_cpu.cpp:119] …" without where in a source it is.
std::string_view without_position(std::string_view line) {
  if (line.starts_with("NCCL error in: ")) {
    const size_t comma = line.find(", ");
    return comma == std::string_view::npos ? line : line.substr(comma + 2);
  }
  if (!line.starts_with('[')) return line;
  const size_t close = line.find("] ");
  const size_t colon = line.find(':');
  const bool position = close != std::string_view::npos && colon < close &&
                        std::isdigit(static_cast<unsigned char>(line[close - 1])) != 0;
  return position ? line.substr(close + 2) : line;
}

std::string_view line_at(std::string_view text, size_t begin) {
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

ErrorEvidence gather_error_evidence(const fs::path& root) {
  ErrorEvidence evidence;
  evidence.cudnn_folders = folders_of_loaded(root / "proc/self/maps", "libcudnn");
  struct statvfs shm = {};
  if (::statvfs((root / "dev/shm").c_str(), &shm) == 0) {
    evidence.shm_size = static_cast<uint64_t>(shm.f_blocks) * shm.f_frsize;
    evidence.shm_free = static_cast<uint64_t>(shm.f_bavail) * shm.f_frsize;
  }
  evidence.address_space_limit = limit_of(RLIMIT_AS);
  evidence.address_space_used = mapped_bytes(root / "proc/self/status");
  evidence.open_files = limit_of(RLIMIT_NOFILE);
  evidence.locked_memory = limit_of(RLIMIT_MEMLOCK);
  std::error_code error;
  evidence.infiniband = fs::exists(root / "sys/class/infiniband", error) &&
                        !fs::is_empty(root / "sys/class/infiniband", error);
  evidence.nccl_interface = variable("NCCL_SOCKET_IFNAME");
  evidence.gloo_interface = variable("GLOO_SOCKET_IFNAME");
  return evidence;
}

std::string library_words(std::string_view text) {
  const bool of_nccl = text.starts_with("NCCL error in: ");
  std::string words = (of_nccl ? "NCCL: " : "") + std::string(without_position(line_at(text, 0)));
  constexpr std::string_view kLast = "Last error:\n";
  const size_t last = text.find(kLast);
  if (last != std::string_view::npos && last + kLast.size() < text.size())
    words += " (" + std::string(line_at(text, last + kLast.size())) + ")";
  return words;
}

std::optional<LibraryError> recognize_library_error(std::string_view text,
                                                    const ErrorEvidence& evidence) {
  const std::optional<RecognizedError> known = recognize_error(text);
  if (!known) return std::nullopt;
  const ExplanationRow* row = known->row;
  for (const Decision& decision : kDecisions) {
    if (std::string_view(row->id) != decision.said || !decision.holds(evidence)) continue;
    row = row_named(decision.meant);
    break;
  }
  const RecognizedError filled = fill_row(*row, facts_of(evidence));
  return LibraryError{row, library_words(text), filled.why};
}

std::string LibraryError::message() const {
  return said + "\n  why:  " + why.cause + "\n  cure: " + why.cure +
         "\n  more: trainctl doctor --explain " + row->id + "; is the machine fit: trainctl doctor";
}

}  // namespace trainctl
