// Where the two streams of one rank go: to the screen through a pipe, to a file, or both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launch/console.h"
#include "launch/rank_output.h"
#include "launch/worker_group.h"

namespace trainctl {

struct StreamPlan {
  std::string file;        // empty: none
  bool file_only = false;  // the rank writes the file itself
  bool on_screen = true;
};

class RankIo {
 public:
  // Opens what is needed. Throws environment_error (too many descriptors, unwritable folder).
  RankIo(const StreamPlan& out, const StreamPlan& error, const std::string& prefix,
         Console* console);
  ~RankIo();
  RankIo(const RankIo&) = delete;
  RankIo& operator=(const RankIo&) = delete;

  void give_to(WorkerCommand* command) const;
  void close_rank_ends();  // once the rank has started

  // The launcher's ends of pipes: at most two.
  const std::vector<std::unique_ptr<RankOutput>>& outputs() const { return outputs_; }
  std::vector<std::string> last_lines() const;
  std::vector<std::string> files() const { return files_; }
  bool all_on_screen() const { return all_on_screen_; }

 private:
  int open_stream(const StreamPlan& plan, Console::Stream stream, const std::string& prefix,
                  Console* console);

  int rank_ends_[2] = {-1, -1};
  std::vector<std::unique_ptr<RankOutput>> outputs_;
  OutputTail tail_;
  std::vector<std::string> files_;      // all of them
  std::vector<std::string> file_only_;  // whose last lines are read from the file
  bool all_on_screen_ = true;
};

}  // namespace trainctl
