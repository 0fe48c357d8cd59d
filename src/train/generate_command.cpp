#include "trainctl/train/generate_command.h"

#include "train/open_checkpoint.h"
#include "trainctl/checkpoint/checkpoint.h"
#include "trainctl/config/load.h"
#include "trainctl/train/load_parameters.h"
#include "trainctl/train/training_state.h"

namespace trainctl {
ExitCode run_generate(const GenerateCommand& command, const RunHost& host) {
  LoadedCheckpoint checkpoint = open_checkpoint(command.source, ExitCode::kUsage);
  const std::string where = checkpoint.path.string();
  const Config config =
      parse_config(state_from_json(checkpoint.state_json, where).config_json, where).config;
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
  load_parameters(checkpoint.model, *model, where);
  host.print(command.prompt +
             generate_text(*model, config, *device, command.prompt, command.generate) + "\n");
  return ExitCode::kOk;
}

}  // namespace trainctl
