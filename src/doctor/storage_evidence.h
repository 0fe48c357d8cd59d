// Where a run would write, and how that place behaves.
#pragma once

#include <cstdint>

#include "doctor/group.h"

namespace trainctl::doctor {

struct Folder {
  std::string path;     // as named
  std::string nearest;  // the folder itself, or the first one above it that is there
  bool exists = false;
  std::string problem;  // empty, or the system's word on why nothing can be written there
  bool read_only = false;
  std::string file_system;  // ext4, nfs4, fuse.sshfs …
  std::string mount_point, mount_source;
  int64_t total = 0, free = 0;              // bytes, for this user
  int64_t files_total = 0, files_free = 0;  // 0 of 0: no fixed number
  int64_t quota_left = -1;                  // bytes; -1: no quota is known
  int64_t quota_limit = -1;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Folder, path, nearest, exists, problem, read_only,
                                                file_system, mount_point, mount_source, total, free,
                                                files_total, files_free, quota_left, quota_limit)

struct WriteTrial {
  int64_t bytes = 0;  // written and on the disk
  double seconds = 0;
  std::string problem;  // the system's word on why the writing ended
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(WriteTrial, bytes, seconds, problem)

struct StorageEvidence {
  Folder output;
  WriteTrial trial;
  Folder temporary;
  bool temporary_named = false;  // by TMPDIR
  int64_t job_nodes = 1;         // of the Slurm job
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(StorageEvidence, output, trial, temporary,
                                                temporary_named, job_nodes)

struct Mount {
  std::string point, file_system, source;
};
// The mount that `path` (absolute, without symlinks) lies on, from the text of
// /proc/self/mountinfo.
Mount mount_of(const fs::path& path, const std::vector<std::string>& mountinfo);

StorageEvidence gather_storage(const DoctorOptions& options);

}  // namespace trainctl::doctor
