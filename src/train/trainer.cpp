#include "trainctl/train/trainer.h"

#include <ATen/Parallel.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "train/shared_folder.h"
#include "train/trainer_session.h"
#include "trainctl/base/log.h"
#include "trainctl/base/stop.h"
#include "trainctl/base/strings.h"
#include "trainctl/base/version.h"
#include "trainctl/config/load.h"
#include "trainctl/parallel/parameter_check.h"
#include "trainctl/parallel/self_test.h"
#include "trainctl/plan/capacity.h"
#include "trainctl/report/sinks.h"
#include "trainctl/runtime/explained.h"

namespace trainctl {

// Everything that can be refused is refused here, before the first step; data and device come
// before the run's folder, so that a refused run leaves nothing behind.
TrainingSession::TrainingSession(const Config& config, const RunOptions& options,
                                 const RunHost& host, Communicator& communicator)
    : config_(config),
      options_(options),
      host_(host),
      communicator_(communicator),
      validation_clock_(config.validation.interval),
      checkpoint_clock_(config.checkpoint.interval) {
  communicator_.together("start: data and device", [this] { open_data_and_device(); });
  compare_data();
  communicator_.use_device(device_->torch_device());
  communicator_.together("start: run folder", [this] {
    if (communicator_.is_main()) open_directory();
  });
  require_shared_folder(RunDirectory::path_of(config_), communicator_);
  find_checkpoint();
}

void TrainingSession::open_data_and_device() {
  datasets_ = open_datasets(config_);
  device_ = make_device(config_.backend.device, &why_not_cuda_, communicator_.world());
  backend_lines_ = apply_backend(config_, device_->torch_device(), communicator_.world());
  const DataExtent extent = extent_of(*datasets_.train);
  plan_ = make_plan(config_, extent, communicator_.shape());
  // The processes of a host share its memory, each has a GPU of its own.
  const bool shared = device_->torch_device().is_cpu();
  require_memory(config_, plan_.parameter_count, device_->memory().total,
                 shared ? communicator_.world().local_world_size : 1);
  state_.threads = at::get_num_threads();
  state_.ranks = communicator_.world().world_size;
  state_.kernels = kernel_choices(device_->torch_device().str());
  state_.dataset_fingerprint = datasets_.train->fingerprint();
  if (!communicator_.is_main()) return;
  varying_shapes_ = varying_shapes(config_, extent, plan_.batch);
  for (const std::string& warning : plan_.warnings) log_warning(warning);
}

// Ranks that read other files than rank 0 would train on other samples than its position says.
void TrainingSession::compare_data() {
  std::string mine = state_.dataset_fingerprint;
  if (datasets_.validation != nullptr) mine += " " + datasets_.validation->fingerprint();
  const std::string main = communicator_.from_main(mine, "start: comparison of data");
  communicator_.together("start: comparison of data", [&] {
    if (mine == main) return;
    throw data_error("rank " + std::to_string(communicator_.world().rank) +
                     " finds other data than rank 0 in the files that the config names; all hosts "
                     "have to see the same ones");
  });
}

void TrainingSession::open_directory() {
  directory_ = std::make_unique<RunDirectory>(config_.run.output_dir, config_.run.name,
                                              options_.resume == "never" && !options_.restarted);
  sweep_checkpoints(directory_->checkpoints());  // the lock is ours: nobody writes there
  log_ = std::make_unique<RunLog>(directory_->logs() / "run.log");
}

bool TrainingSession::finished() const {
  return (plan_.total_steps > 0 && state_.step >= plan_.total_steps) ||
         (config_.training.max_tokens > 0 && state_.tokens >= config_.training.max_tokens) ||
         stopped_early();
}

bool TrainingSession::stopped_early() const {
  const int64_t patience = config_.validation.early_stopping.patience;
  return patience > 0 && state_.validations_without_improvement >= patience;
}

ExitCode TrainingSession::run() {
  try {
    return finished() && !state_.validation_pending ? say_finished() : train_to_the_end();
  } catch (const std::exception&) {
    const std::exception_ptr error = explain(std::current_exception());
    const std::string text = error_text(error);
    if (log_ && !text.empty()) log_->write("error: " + text + "\n");
    std::rethrow_exception(error);
  }
}

ExitCode TrainingSession::train_to_the_end() {
  communicator_.together("start: model", [this] { explaining([this] { build(); }); });
  check_parameters_equal(*model_, communicator_, 0);
  sync_ = communicator_.make_gradient_sync(model_->parameters(), config_.parallel);
  if (config_.parallel.self_test) {
    self_test_ = all_reduce_self_test(communicator_, config_.parallel.bucket_mb, *device_);
  }
  communicator_.together("start: output", [this] { open_sinks(); });
  make_saver();
  host_.began((fs::path(config_.run.output_dir) / config_.run.name).string());
  return finish(train());
}

void TrainingSession::build() {
  if (communicator_.is_main() && !finished()) {
    require_disk(directory_->path(), config_.optimizer, plan_.parameter_count);
    const auto present = static_cast<int64_t>(list_checkpoints(directory_->checkpoints()).size());
    const std::string warning =
        disk_warning(directory_->path(), config_, plan_.parameter_count, present);
    if (!warning.empty()) log_warning(warning);
  }
  model_ = make_model(config_.model, config_.backend, static_cast<uint64_t>(config_.run.seed),
                      device_->torch_device());
  optimizer_ = make_optimizer(config_.optimizer, model_->parameters());
  scaler_ = std::make_unique<GradScaler>(config_.precision.grad_scaler, config_.precision.dtype,
                                         device_->torch_device());
  restore();
  nonfinite_run_ = at::full({}, state_.nonfinite_run,
                            at::TensorOptions(device_->torch_device()).dtype(at::kFloat));
  if (finished()) return;
  loader_ =
      make_train_loader(datasets_.train, config_, plan_.batch, communicator_.shape(), *device_);
  loader_->seek(state_.position);
}

void TrainingSession::open_sinks() {
  std::vector<std::unique_ptr<MetricsSink>> sinks;
  if (!communicator_.is_main()) {
    sinks_ = std::make_unique<CompositeSink>(std::move(sinks));
    return;
  }
  write_file_atomic(directory_->resolved_config(), config_to_json(config_), ExitCode::kUsage);
  sinks.push_back(make_console_sink(config_.logging.progress, host_.is_terminal,
                                    host_.terminal_width, host_.print, host_.progress));
  sinks.push_back(make_console_sink(
      ProgressStyle::kLines, /*is_terminal=*/false, /*width=*/100,
      [log = log_.get()](const std::string& text) { log->write(text); },
      [](const std::string&) {}));
  sinks.push_back(make_jsonl_sink(directory_->metrics(), state_.step));
  sinks_ = std::make_unique<CompositeSink>(std::move(sinks));
  print_header();
  warn_of_slow_paths();
}

namespace {

// What all ranks have to be given alike. Paths and the device may have other names on other hosts.
std::string must_agree(const Config& config, const RunOptions& options) {
  auto json = nlohmann::json::parse(config_to_json(config));
  for (const char* key : {"backend", "logging"}) json.erase(key);
  json["run"].erase("output_dir");
  for (const char* key : {"train", "validation", "workers", "prefetch"}) json["data"].erase(key);
  json["program"] = kBuildId;
  json["--print-param-hash"] = options.print_param_hash;
  return json.dump();
}

}  // namespace

ExitCode run_training(const Config& config, const ProcessWorld& world, const RunOptions& options,
                      const RunHost& host) {
  if (world.rank == 0) {
    for (const std::string& warning : options.config_warnings) log_warning(warning);
  }
  std::unique_ptr<Communicator> communicator =
      world.distributed()
          ? join_ranks(world, config.parallel, must_agree(config, options), host.stop_signal)
          : make_single_communicator();
  try {
    return TrainingSession(config, options, host, *communicator).run();
  } catch (const std::exception&) {
    const std::exception_ptr told = communicator->end_with(std::current_exception());
    // Its threads may wait for ranks that never come, and its destructor for them.
    if (connections_abandoned()) (void)communicator.release();
    std::rethrow_exception(told);
  }
}

}  // namespace trainctl
