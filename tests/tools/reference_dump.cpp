// What the reference tests compare with PyTorch, as safetensors files.
//   reference_dump weights CONFIG OUT
//     the parameters a run starts with
//   reference_dump batches CONFIG STEPS OUT
//     "<step>.<micro-batch>.tokens" and ".targets" of a run's first steps, on one rank
//   reference_dump gradients CONFIG IN OUT
//     from parameters, "tokens" and "targets" in IN: "logits", "loss" (mean over valid targets) and
//     "grad.<parameter>"
// Precision, label smoothing and back end are those of the config; the model runs as in training.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "trainctl/checkpoint/safetensors.h"
#include "trainctl/config/load.h"
#include "trainctl/data/data.h"
#include "trainctl/model/model.h"
#include "trainctl/plan/plan.h"
#include "trainctl/runtime/device.h"
#include "trainctl/train/load_parameters.h"

namespace trainctl {
namespace {

struct Subject {
  Config config;
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
};

Subject make_subject(const std::string& config_path) {
  Subject subject;
  subject.config = load_config(config_path, {}).config;
  std::string why_not_cuda;
  subject.device = make_device(subject.config.backend.device, &why_not_cuda);
  apply_backend(subject.config, subject.device->torch_device());
  subject.model =
      make_model(subject.config.model, subject.config.backend,
                 static_cast<uint64_t>(subject.config.run.seed), subject.device->torch_device());
  return subject;
}

void write_weights(const std::string& config_path, const std::string& out) {
  const Subject subject = make_subject(config_path);
  std::vector<TensorEntry> entries;
  for (const NamedParameter& parameter : subject.model->parameters()) {
    entries.push_back({parameter.name, parameter.tensor.detach()});
  }
  write_safetensors(out, entries, {});
}

void write_batches(const std::string& config_path, int64_t steps, const std::string& out) {
  const Subject subject = make_subject(config_path);
  const Config& config = subject.config;
  const DatasetPair datasets = open_datasets(config);
  const BatchPlan batch = make_plan(config, extent_of(*datasets.train), WorldShape{}).batch;
  const auto loader =
      make_train_loader(datasets.train, config, batch, WorldShape{}, *subject.device);
  std::vector<TensorEntry> entries;
  for (int64_t step = 0; step < steps; ++step) {
    const StepBatch step_batch = loader->next();
    for (size_t i = 0; i < step_batch.micro_batches.size(); ++i) {
      const std::string prefix = std::to_string(step) + "." + std::to_string(i) + ".";
      entries.push_back({prefix + "tokens", step_batch.micro_batches[i].tokens.clone()});
      entries.push_back({prefix + "targets", step_batch.micro_batches[i].targets.clone()});
    }
  }
  write_safetensors(out, entries, {});
}

void write_gradients(const std::string& config_path, const std::string& in,
                     const std::string& out) {
  const Subject subject = make_subject(config_path);
  const SafetensorsFile inputs(in);
  load_parameters(inputs, *subject.model, in);
  const at::Tensor tokens = subject.device->to_device(inputs.tensor("tokens").clone());
  const at::Tensor targets = subject.device->to_device(inputs.tensor("targets").clone());

  at::Tensor logits, loss;
  {
    const AutocastGuard autocast(subject.config.precision.dtype, subject.device->torch_device());
    {
      const at::NoGradGuard no_grad;
      logits = subject.model->logits(tokens);
    }
    const at::Tensor valid = targets.ne(kIgnoreIndex).sum();
    loss =
        subject.model->loss_sum(tokens, targets, subject.config.training.label_smoothing) / valid;
  }
  loss.backward();

  std::vector<TensorEntry> entries = {{"logits", logits.to(at::kFloat)}, {"loss", loss.detach()}};
  for (const NamedParameter& parameter : subject.model->parameters()) {
    entries.push_back({"grad." + parameter.name, parameter.tensor.grad()});
  }
  write_safetensors(out, entries, {});
}

int run_reference_dump(const std::vector<std::string>& args) {
  if (args.size() == 3 && args[0] == "weights") {
    write_weights(args[1], args[2]);
  } else if (args.size() == 4 && args[0] == "batches") {
    write_batches(args[1], std::stoll(args[2]), args[3]);
  } else if (args.size() == 4 && args[0] == "gradients") {
    write_gradients(args[1], args[2], args[3]);
  } else {
    std::fprintf(stderr,
                 "usage: reference_dump weights CONFIG OUT | batches CONFIG STEPS OUT | "
                 "gradients CONFIG IN OUT\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace trainctl

int main(int argc, char** argv) {
  try {
    return trainctl::run_reference_dump({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "reference_dump: %s\n", error.what());
    return 1;
  }
}
