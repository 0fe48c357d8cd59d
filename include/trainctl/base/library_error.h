// What an error of LibTorch, CUDA, cuDNN, NCCL, Gloo or the system means on this machine: a row of
// the table of explanations, chosen between likely ones by what can be seen when it happens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainctl/base/explanations.h"
#include "trainctl/base/files.h"

namespace trainctl {

// Gathered after the error, from files and limits alone: CUDA may not be asked any more.
struct ErrorEvidence {
  std::optional<uint64_t> gpu_free;            // bytes; the caller's, who may know a Device
  std::vector<std::string> cudnn_folders;      // of the parts of cuDNN that this process has loaded
  std::optional<uint64_t> shm_size, shm_free;  // /dev/shm
  std::optional<uint64_t> address_space_limit;  // ulimit -v; empty: unlimited
  uint64_t address_space_used = 0;
  std::optional<uint64_t> open_files, locked_memory;  // limits; empty: unlimited
  bool infiniband = false;
  std::string nccl_interface, gloo_interface;  // NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME
};

ErrorEvidence gather_error_evidence(const fs::path& root = "/");

struct LibraryError {
  const ExplanationRow* row;
  std::string said;  // the library's own words, one line, without source positions
  Explanation why;
  // What failed, cause, cure, where there is more: several lines, the first of which says what.
  std::string message() const;
};

std::optional<LibraryError> recognize_library_error(std::string_view text,
                                                    const ErrorEvidence& evidence);

// The library's own words: the first line without source positions, and NCCL's "Last error".
std::string library_words(std::string_view text);

}  // namespace trainctl
