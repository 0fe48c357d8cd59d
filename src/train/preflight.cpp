#include "trainctl/train/preflight.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "train/preflight_steps.h"
#include "trainctl/base/log.h"
#include "trainctl/base/process.h"
#include "trainctl/base/strings.h"
#include "trainctl/base/version.h"
#include "trainctl/parallel/communicator.h"
#include "trainctl/parallel/self_test.h"
#include "trainctl/report/preflight.h"
#include "trainctl/runtime/device.h"
#include "trainctl/runtime/explained.h"

namespace trainctl {
namespace {

constexpr double kAllReduceSeconds = 1;
constexpr double kBucketMb = 25;

// Ends the process when a step does not come to its end: nothing else helps against a driver or a
// file system that hangs.
class Watchdog {
 public:
  explicit Watchdog(int64_t rank) : rank_(rank), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void begin(const char* step, double seconds) {
    const std::lock_guard<std::mutex> lock(mutex_);
    step_ = step;
    limit_ = seconds;
    end_ = Clock::now() +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    changed_.notify_all();
  }
  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    step_ = nullptr;
    changed_.notify_all();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!done_) {
      if (step_ == nullptr) {
        changed_.wait(lock);
      } else if (Clock::now() < end_) {
        changed_.wait_until(lock, end_);
      } else {
        log_error("the preflight hangs: on rank " + std::to_string(rank_) + " (" +
                  ProcessIdentity::self().host + ") the step '" + step_ + "' has not ended after " +
                  human_duration(limit_) +
                  " (--deadline); look at its stack (gdb -p) and at dmesg there");
        std::fflush(nullptr);
        ::_exit(static_cast<int>(ExitCode::kEnvironment));
      }
    }
  }

  int64_t rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const char* step_ = nullptr;
  double limit_ = 0;
  Clock::time_point end_;
  bool done_ = false;
  std::thread thread_;
};

class Preflight {
 public:
  Preflight(const PreflightOptions& options, const RunHost& host, Communicator& communicator)
      : options_(options),
        host_(host),
        communicator_(communicator),
        watchdog_(communicator.world().rank) {
    mine_.rank = communicator.world().rank;
    mine_.host = ProcessIdentity::self().host;
  }

  ExitCode run() {
    local("device", [this] { open_device(); });
    communicator_.together("device", [this] {
      if (!device_) throw environment_error(mine_.figures.back().note);
    });
    mine_.figures.clear();
    communicator_.use_device(device_->torch_device());
    figure("matmul fp32", [&] { return measure_matmul(at::kFloat, "matmul fp32", *device_); });
    figure("matmul bf16", [&] { return measure_matmul(at::kBFloat16, "matmul bf16", *device_); });
    if (device_->torch_device().is_cuda())
      figure("matmul fp16", [&] { return measure_matmul(at::kHalf, "matmul fp16", *device_); });
    local("attention", [this] {
      for (PreflightFigure& one : measure_attention(*device_))
        mine_.figures.push_back(std::move(one));
    });
    all_reduce();
    figure("write and fsync", [&] { return measure_write(options_.output_dir); });
    return report();
  }

 private:
  void open_device() {
    Config config;
    config.backend.device = options_.device;
    std::string why_not_cuda;
    device_ = make_device(options_.device, &why_not_cuda, communicator_.world());
    apply_backend(config, device_->torch_device(), communicator_.world());
    for (const auto& [label, value] : device_->report()) {
      if (label == "GPU" || (label == "processor" && mine_.device.empty())) mine_.device = value;
    }
    mine_.device = device_->torch_device().str() + ": " + mine_.device;
    if (!why_not_cuda.empty() && communicator_.is_main()) log_warning("no GPU: " + why_not_cuda);
  }

  // All ranks measure at once, as they train at once.
  void local(const char* step, const std::function<void()>& work) {
    host_.progress(step);
    communicator_.enter(0, step);
    communicator_.barrier(step);
    watchdog_.begin(step, options_.deadline);
    try {
      work();
    } catch (const std::exception&) {
      const std::string text = error_text(explained(std::current_exception()));
      mine_.figures.push_back({step, "", true, {}, text, /*failed=*/true});
    }
    watchdog_.end();
  }

  void figure(const char* step, const std::function<PreflightFigure()>& measure) {
    local(step, [&] { mine_.figures.push_back(measure()); });
  }

  // Waiting for others has a limit of its own, whose report names who is missing: the watchdog
  // stands behind it.
  void all_reduce() {
    constexpr const char* kStep = "all-reduce";
    host_.progress(kStep);
    communicator_.enter(0, kStep);
    communicator_.barrier(kStep);
    watchdog_.begin(kStep, 2 * options_.deadline + 30);
    const auto rate = measure_all_reduce(communicator_, kBucketMb, *device_, kAllReduceSeconds);
    watchdog_.end();
    PreflightFigure figure{kStep, "GB/s", true, {}, "one process: nothing to measure", false};
    if (rate) {
      figure.value = rate->bus_bytes_per_second / 1e9;
      figure.note =
          "bus bandwidth, " + human_bytes(static_cast<uint64_t>(rate->bytes)) + " at a time";
    }
    mine_.figures.push_back(figure);
  }

  ExitCode report() {
    communicator_.enter(0, "gathering the figures");
    host_.progress("");
    const std::string text =
        to_json(mine_).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    std::vector<PreflightRank> ranks;
    for (const std::string& one : communicator_.gather(text, "gathering the figures"))
      ranks.push_back(preflight_rank_from_json(nlohmann::ordered_json::parse(one)));
    if (communicator_.is_main())
      host_.print(options_.json ? preflight_to_json(ranks).dump(2) + "\n"
                                : format_preflight(ranks));
    return any_failed(ranks) ? ExitCode::kEnvironment : ExitCode::kOk;
  }

  const PreflightOptions& options_;
  const RunHost& host_;
  Communicator& communicator_;
  Watchdog watchdog_;
  std::unique_ptr<Device> device_;
  PreflightRank mine_;
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

// What the communicator says of a run, as of a preflight: nothing trains, and what does not answer
// is the machine.
std::exception_ptr as_preflight(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError& e) {
    std::string text = replaced(e.what(), "training hangs", "the preflight hangs");
    while (text.find("parallel.timeout") != std::string::npos)
      text = replaced(text, "parallel.timeout", "--deadline");
    const ExitCode code = e.code() == ExitCode::kTrainingFailed ? ExitCode::kEnvironment : e.code();
    return std::make_exception_ptr(UserError(code, text));
  } catch (const std::exception&) {
    return error;
  }
}

std::unique_ptr<Communicator> join(const PreflightOptions& options, const ProcessWorld& world,
                                   const RunHost& host) {
  if (!world.distributed()) return make_single_communicator();
  ParallelConfig parallel;
  parallel.timeout = options.deadline;
  const std::string agree =
      nlohmann::json{{"program", kBuildId}, {"--device", options.device}}.dump();
  try {
    return join_ranks(world, parallel, agree, host.stop_signal);
  } catch (const std::exception&) {
    std::rethrow_exception(as_preflight(std::current_exception()));
  }
}

}  // namespace

ExitCode run_preflight(const PreflightOptions& options, const ProcessWorld& world,
                       const RunHost& host) {
  std::unique_ptr<Communicator> communicator = join(options, world, host);
  try {
    return Preflight(options, host, *communicator).run();
  } catch (const std::exception&) {
    const std::exception_ptr told = as_preflight(communicator->end_with(std::current_exception()));
    // Its threads may wait for ranks that never come, and its destructor for them.
    if (connections_abandoned()) (void)communicator.release();
    std::rethrow_exception(told);
  }
}

}  // namespace trainctl
