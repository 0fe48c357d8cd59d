// Where files of the ranks go: <log-dir>/<run id>/attempt_<n>/<local rank>/.
#pragma once

#include <string>

#include "trainctl/base/files.h"
#include "trainctl/launch/node_group.h"
#include "trainctl/launch/options.h"

namespace trainctl {

class LogFolders {
 public:
  // Makes the run's folder; without --log-dir one in $TMPDIR, which is removed at the end unless
  // streams were asked to go to files.
  LogFolders(const LaunchOptions& options, const NodeAssignment& node);
  ~LogFolders();
  LogFolders(const LogFolders&) = delete;
  LogFolders& operator=(const LogFolders&) = delete;

  fs::path rank_folder(int64_t attempt, int64_t local_rank) const;  // made; empty: no place
  const fs::path& run_folder() const { return run_folder_; }
  // The folder to remove at the end; empty: it stays.
  std::string temporary() const { return is_temporary_ ? run_folder_.string() : ""; }

 private:
  fs::path run_folder_;
  bool is_temporary_ = false;
  int lock_ = -1;  // says to other launchers that the temporary one is in use
};

}  // namespace trainctl
