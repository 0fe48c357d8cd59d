#include "trainctl/train/generate_command.h"

#include "train/open_checkpoint.h"
#include "trainctl/checkpoint/checkpoint.h"
#include "trainctl/config/load.h"
#include "trainctl/train/load_parameters.h"
#include "trainctl/train/training_state.h"

namespace trainctl {
namespace {

struct TrainedModel {
  Config config;
  TensorFiles weights;
  std::string where;  // for messages
};

// A finished run whose checkpoints were deleted for space still has its weights.
std::optional<TrainedModel> open_weights_alone(const fs::path& run) {
  const fs::path weights = run / "model.safetensors", config = run / "config.resolved.json";
  std::error_code ignored;
  if (!fs::is_regular_file(weights, ignored) || !fs::is_regular_file(config, ignored)) return {};
  if (!list_checkpoints(run / "checkpoints").empty()) return {};
  return TrainedModel{load_config(config.string(), {}).config, SafetensorsFile(weights),
                      weights.string()};
}

TrainedModel open_trained_model(const std::string& source) {
  if (auto weights = open_weights_alone(source)) return std::move(*weights);
  LoadedCheckpoint checkpoint = open_checkpoint(source, ExitCode::kUsage);
  const std::string where = checkpoint.path.string();
  return {parse_config(state_from_json(checkpoint.state_json, where).config_json, where).config,
          std::move(checkpoint.model), where};
}

}  // namespace

ExitCode run_generate(const GenerateCommand& command, const RunHost& host) {
  const TrainedModel trained = open_trained_model(command.source);
  const Config& config = trained.config;
  if (config.model.type != ModelType::kGpt || config.data.format != DataFormat::kText) {
    throw usage_error("run '" + command.source +
                      "' did not train a text model; generate needs model.type gpt and "
                      "data.format text");
  }
  std::string ignored;
  const std::unique_ptr<Device> device =
      make_device(config.backend.device == "cpu" ? "cpu" : "auto", &ignored);
  apply_backend(config, device->torch_device());
  const std::unique_ptr<Model> model = make_model(
      config.model, config.backend, static_cast<uint64_t>(config.run.seed), device->torch_device());
  load_parameters(trained.weights, *model, trained.where);
  host.print(command.prompt +
             generate_text(*model, config, *device, command.prompt, command.generate) + "\n");
  return ExitCode::kOk;
}

}  // namespace trainctl
