#include "train/shared_folder.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "trainctl/base/process.h"
#include "trainctl/checkpoint/checkpoint_saver.h"

namespace trainctl {
namespace {

// A network file system may show a new file a little later on other hosts.
constexpr std::chrono::seconds kPatience{10};

fs::path mark(const fs::path& folder, const std::string& token, int64_t rank) {
  return folder / (".seen-" + token + "-" + std::to_string(rank));
}

bool appears(const fs::path& path) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::error_code ignored;
  while (!fs::exists(path, ignored)) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

std::string place(const fs::path& folder) {
  std::error_code ignored;
  return "'" + fs::absolute(folder, ignored).string() + "' on host " + ProcessIdentity::self().host;
}

UserError not_shared(const std::string& main_place, int64_t rank, const std::string& its_place) {
  return usage_error("the run's folder is not the same for all ranks: rank 0 has " + main_place +
                     ", rank " + std::to_string(rank) + " has " + its_place +
                     ", and one does not see what the other writes there; put run.output_dir on a "
                     "file system that all hosts share, under the same path");
}

// Rank 0's, whose folder it is: also those of a process that was killed.
class MarksRemoved {
 public:
  explicit MarksRemoved(fs::path folder) : folder_(std::move(folder)) {}
  ~MarksRemoved() {
    std::error_code ignored;
    if (folder_.empty()) return;
    for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
      if (entry.path().filename().string().starts_with(".seen-")) fs::remove(entry.path(), ignored);
    }
  }
  MarksRemoved(const MarksRemoved&) = delete;
  MarksRemoved& operator=(const MarksRemoved&) = delete;

 private:
  fs::path folder_;
};

}  // namespace

void require_shared_folder(const fs::path& folder, Communicator& communicator) {
  const ProcessWorld& world = communicator.world();
  if (!world.distributed()) return;
  const char* what = "start: proof that the run's folder is shared";
  const std::string token =
      communicator.from_main(communicator.is_main() ? draw_token() : "", what);
  const std::vector<std::string> places = communicator.gather(place(folder), what);
  const MarksRemoved removed(communicator.is_main() ? folder : fs::path());
  const bool speaks = world.local_rank == 0 && !communicator.is_main();
  communicator.together(what, [&] {
    if (communicator.is_main()) write_file_atomic(mark(folder, token, 0), "", ExitCode::kUsage);
  });
  communicator.together(what, [&] {
    if (!appears(mark(folder, token, 0))) {
      throw not_shared(places[0], world.rank, places[static_cast<size_t>(world.rank)]);
    }
    if (speaks) write_file_atomic(mark(folder, token, world.rank), "", ExitCode::kUsage);
  });
  const std::vector<std::string> left = communicator.gather(speaks ? "mark" : "", what);
  communicator.together(what, [&] {
    if (!communicator.is_main()) return;
    for (size_t rank = 1; rank < left.size(); ++rank) {
      const auto number = static_cast<int64_t>(rank);
      if (left[rank].empty() || appears(mark(folder, token, number))) continue;
      throw not_shared(places[0], number, places[rank]);
    }
  });
}

}  // namespace trainctl
