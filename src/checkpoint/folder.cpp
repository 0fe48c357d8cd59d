#include "checkpoint/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include "checkpoint/durable_file.h"
#include "trainctl/base/log.h"

namespace trainctl {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartial = "partial", kReplaced = "replaced", kRemoved = "removed";

struct FolderName {
  int64_t step = 0;
  std::string kind;  // empty for step-N itself
};

std::optional<int64_t> canonical_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // "007" would be a second name for step 7.
  if (error != std::errc() || value < 0 || std::to_string(value) != text) {
    return std::nullopt;
  }
  return value;
}

std::optional<FolderName> parse_folder_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) {
    return std::nullopt;
  }
  name.remove_prefix(kStepPrefix.size());
  const size_t dot = name.find('.');
  const std::optional<int64_t> step = canonical_number(name.substr(0, dot));
  if (!step || dot == std::string_view::npos) {
    return step ? std::optional(FolderName{*step, ""}) : std::nullopt;
  }
  const std::string_view suffix = name.substr(dot + 1);
  const size_t dash = suffix.find('-');
  const std::string kind(suffix.substr(0, dash));
  if (dash == std::string_view::npos ||
      (kind != kPartial && kind != kReplaced && kind != kRemoved)) {
    return std::nullopt;
  }
  const std::string_view token = suffix.substr(dash + 1);
  const bool ours = !token.empty() && token.find_first_not_of("0123456789abcdef") == token.npos;
  return ours ? std::optional(FolderName{*step, kind}) : std::nullopt;
}

std::vector<std::pair<FolderName, fs::path>> scan(const fs::path& checkpoints_dir) {
  std::vector<std::pair<FolderName, fs::path>> found;
  std::error_code error;
  fs::directory_iterator entries(checkpoints_dir, error);
  if (error == std::errc::no_such_file_or_directory) {
    return found;
  }
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::optional<FolderName> name = parse_folder_name(entries->path().filename().string());
    std::error_code ignored;  // a folder that vanished meanwhile is none
    if (name && entries->is_directory(ignored)) {
      found.emplace_back(*name, entries->path());
    }
  }
  if (error) {
    throw checkpoint_error(checkpoints_dir.string() +
                           ": cannot list the folder: " + error.message());
  }
  return found;
}

fs::path aside(const fs::path& step_dir, std::string_view kind) {
  return step_dir.string() + "." + std::string(kind) + "-" + std::to_string(::getpid());
}

[[noreturn]] void fail_rename(const fs::path& from, const fs::path& to, int error) {
  throw checkpoint_error(from.string() + ": cannot rename to " + to.filename().string() + ": " +
                         std::strerror(error) + write_error_cure(error));
}

void rename_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    fail_rename(from, to, errno);
  }
}

}  // namespace

void remove_quietly(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) {
    log_warning(folder.string() + ": cannot remove the folder: " + error.message());
  }
}

std::string random_token() {
  std::random_device random;
  return to_hex((uint64_t{random()} << 32) | random());
}

fs::path step_folder(const fs::path& checkpoints_dir, int64_t step) {
  return checkpoints_dir / (std::string(kStepPrefix) + std::to_string(step));
}

fs::path partial_folder(const fs::path& checkpoints_dir, int64_t step, const std::string& token) {
  return step_folder(checkpoints_dir, step).string() + "." + std::string(kPartial) + "-" + token;
}

bool has_marker(const fs::path& step_dir) {
  std::error_code ignored;
  return fs::is_regular_file(step_dir / kCompleteMarker, ignored);
}

std::vector<std::pair<int64_t, fs::path>> step_folders(const fs::path& checkpoints_dir) {
  std::map<int64_t, fs::path> by_step;
  for (const auto& [name, path] : scan(checkpoints_dir)) {
    if (name.kind.empty()) {
      by_step[name.step] = path;
    } else if (name.kind == kReplaced) {
      by_step.try_emplace(name.step, path);
    }
  }
  return {by_step.begin(), by_step.end()};
}

void commit_folder(const fs::path& partial, const fs::path& final_name) {
  const fs::path parent = final_name.parent_path();
  fs::path old;
  if (::access(final_name.c_str(), F_OK) != 0) {
    rename_folder(partial, final_name);
  } else if (::renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, final_name.c_str(),
                         RENAME_EXCHANGE) == 0) {
    old = partial;
  } else {  // network file systems cannot exchange
    old = aside(final_name, kReplaced);
    rename_folder(final_name, old);
    rename_folder(partial, final_name);
  }
  fsync_directory(parent, ExitCode::kCheckpoint);
  if (!old.empty()) {
    remove_quietly(old);
  }
}

void remove_step(const fs::path& step_dir) {
  const fs::path doomed = aside(step_dir, kRemoved);
  if (::rename(step_dir.c_str(), doomed.c_str()) != 0) {
    log_warning(step_dir.string() + ": cannot remove the old checkpoint: " + std::strerror(errno));
    return;
  }
  remove_quietly(doomed);
}

void sweep_leftovers(const fs::path& checkpoints_dir) {
  for (const auto& [name, path] : scan(checkpoints_dir)) {
    if (name.kind.empty()) {
      continue;
    }
    const fs::path step_dir = step_folder(checkpoints_dir, name.step);
    if (name.kind == kReplaced && !fs::exists(step_dir)) {
      rename_folder(path, step_dir);
    } else {
      remove_quietly(path);
    }
  }
}

}  // namespace trainctl
