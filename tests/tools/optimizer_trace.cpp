// optimizer_trace SCENARIO.json IN.safetensors OUT.safetensors
//
// Drives schedule, scaler, clipping and optimizer through given gradients, in the order of
// TrainStep::run, for the comparisons with PyTorch in tests/reference. The scenario holds
//   config      a run config (strictly read as always)
//   parameters  [{"name", "kind": "matrix" | "embedding" | "norm" | "bias"}]
//   steps       number of updates; reload_before: the update before which the optimizer is replaced
//   by
//               a new one that loads its state (optional)
// IN holds "initial/<name>" and "<step>/<name>" for gradients of the unscaled loss; a gradient that
// is not there is undefined. OUT receives "<step>/<name>" for parameters after each update.
// Standard output gets one line of JSON per step; a number that is not finite is null there.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trainctl/base/error.h"
#include "trainctl/base/files.h"
#include "trainctl/checkpoint/safetensors.h"
#include "trainctl/config/load.h"
#include "trainctl/plan/lr_schedule.h"
#include "trainctl/train/clip.h"
#include "trainctl/train/grad_scaler.h"
#include "trainctl/train/optimizer.h"

namespace trainctl {
namespace {

using nlohmann::json;

ParamKind kind_of(const std::string& name) {
  if (name == "embedding") return ParamKind::kEmbedding;
  if (name == "norm") return ParamKind::kNorm;
  if (name == "bias") return ParamKind::kBias;
  return ParamKind::kMatrix;
}

std::vector<NamedParameter> initial_parameters(const json& scenario, const SafetensorsFile& in) {
  std::vector<NamedParameter> parameters;
  for (const json& row : scenario.at("parameters")) {
    const std::string name = row.at("name");
    parameters.push_back(
        {name, in.tensor("initial/" + name).clone().requires_grad_(), kind_of(row.at("kind"))});
  }
  return parameters;
}

// What backward of the scaled loss would leave behind.
void set_gradients(std::vector<NamedParameter>& parameters, const SafetensorsFile& in, int64_t step,
                   const GradScaler& scaler, bool through_fp16) {
  const at::Tensor scale = scaler.scale(at::ones({}));
  for (NamedParameter& parameter : parameters) {
    const std::string name = std::to_string(step) + "/" + parameter.name;
    if (!in.contains(name)) continue;
    at::Tensor grad = in.tensor(name) * scale;
    if (through_fp16) grad = grad.to(at::kHalf).to(at::kFloat);
    parameter.tensor.mutable_grad() = grad;
  }
}

void reload(std::unique_ptr<Optimizer>& optimizer, const OptimizerConfig& config,
            const std::vector<NamedParameter>& parameters, const std::string& file) {
  write_safetensors(file, optimizer->state(), {});
  optimizer = make_optimizer(config, parameters);
  optimizer->load_state(SafetensorsFile(file));
  std::filesystem::remove(file);
}

void trace(const json& scenario, const SafetensorsFile& in, const std::string& out_path) {
  const Config config = parse_config(scenario.at("config").dump(), "scenario").config;
  const int64_t steps = scenario.at("steps");
  const int64_t warmup_steps = planned_warmup_steps(config.lr_scheduler, steps);
  std::vector<NamedParameter> parameters = initial_parameters(scenario, in);
  std::unique_ptr<Optimizer> optimizer = make_optimizer(config.optimizer, parameters);
  GradScaler scaler(config.precision.grad_scaler, config.precision.dtype, at::kCPU);

  std::vector<TensorEntry> out;
  for (int64_t step = 0; step < steps; ++step) {
    const double rate = learning_rate_at(config.lr_scheduler, config.optimizer.learning_rate, step,
                                         steps, warmup_steps);
    if (scenario.value("reload_before", int64_t{-1}) == step) {
      reload(optimizer, config.optimizer, parameters, out_path + ".state");
    }
    optimizer->release_grad();
    set_gradients(parameters, in, step, scaler, scenario.value("through_fp16", false));

    const std::vector<at::Tensor> grads = optimizer->gradients();
    scaler.unscale(grads);
    const at::Tensor norm = gradient_norm(grads);
    scaler.guard(norm);
    optimizer->step(rate, clip_divisor(norm, config.training.max_grad_norm), scaler.found_inf());
    scaler.update();

    for (const NamedParameter& parameter : parameters) {
      out.push_back(
          {std::to_string(step) + "/" + parameter.name, parameter.tensor.detach().clone()});
    }
    const GradScaler::State state = scaler.state();
    std::puts(json({{"learning_rate", rate},
                    {"grad_norm", norm.item<double>()},
                    {"found_inf", scaler.found_inf().item<double>()},
                    {"scale", state.scale},
                    {"growth_tracker", state.growth_tracker}})
                  .dump()
                  .c_str());
  }
  write_safetensors(out_path, out, {});
}

}  // namespace
}  // namespace trainctl

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: optimizer_trace SCENARIO.json IN.safetensors OUT.safetensors\n", stderr);
    return 2;
  }
  try {
    const std::string text = trainctl::read_file(argv[1], trainctl::ExitCode::kUsage);
    trainctl::trace(nlohmann::json::parse(text), trainctl::SafetensorsFile(argv[2]), argv[3]);
    return 0;
  } catch (const trainctl::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
