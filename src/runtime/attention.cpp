#include "runtime/attention.h"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "trainctl/base/error.h"
#include "trainctl/base/strings.h"
#include "trainctl/runtime/device.h"

namespace trainctl {
namespace {

struct AttentionKernel {
  AttentionBackend backend;
  const char* name;  // as in the config
  at::SDPBackend aten;
  void (at::Context::*enable)(bool);
  bool on_cpu;
};

constexpr AttentionKernel kAttentionKernels[] = {
    {AttentionBackend::kFlash, "flash", at::SDPBackend::flash_attention,
     &at::Context::setSDPUseFlash, true},
    {AttentionBackend::kEfficient, "efficient", at::SDPBackend::efficient_attention,
     &at::Context::setSDPUseMemEfficient, false},
    {AttentionBackend::kCudnn, "cudnn", at::SDPBackend::cudnn_attention,
     &at::Context::setSDPUseCuDNN, false},
    {AttentionBackend::kMath, "math", at::SDPBackend::math, &at::Context::setSDPUseMath, true},
};

void enable_attention(AttentionBackend wanted) {
  for (const AttentionKernel& kernel : kAttentionKernels) {
    const bool on = wanted == AttentionBackend::kAuto || wanted == kernel.backend;
    (at::globalContext().*kernel.enable)(on);
  }
}

// ATen's warnings about why a kernel does not fit are for developers; the caller says it itself.
class QuietWarnings : public c10::WarningHandler {
 public:
  QuietWarnings() : previous_(c10::WarningUtils::get_warning_handler()) {
    c10::WarningUtils::set_warning_handler(this);
  }
  ~QuietWarnings() override { c10::WarningUtils::set_warning_handler(previous_); }
  QuietWarnings(const QuietWarnings&) = delete;
  QuietWarnings& operator=(const QuietWarnings&) = delete;
  void process(const c10::Warning&) override {}

 private:
  c10::WarningHandler* previous_;
};

// Keeps them: they say why a kernel does not fit.
class KeptWarnings : public c10::WarningHandler {
 public:
  KeptWarnings() : previous_(c10::WarningUtils::get_warning_handler()) {
    c10::WarningUtils::set_warning_handler(this);
  }
  ~KeptWarnings() override { c10::WarningUtils::set_warning_handler(previous_); }
  KeptWarnings(const KeptWarnings&) = delete;
  KeptWarnings& operator=(const KeptWarnings&) = delete;
  void process(const c10::Warning& warning) override { last_ = warning.msg(); }
  const std::string& last() const { return last_; }

 private:
  c10::WarningHandler* previous_;
  std::string last_;
};

std::string first_line_of(const std::string& text) { return text.substr(0, text.find('\n')); }

// Asks ATen's own dispatcher with tensors of the shape and type that the model will bring.
at::SDPBackend attention_choice(const Config& config, const at::Device& device) {
  const ModelConfig& model = config.model;
  const int64_t head_size =
      std::max<int64_t>(1, model.d_model / std::max<int64_t>(1, model.n_heads));
  at::Tensor x_bhtd =
      at::empty({1, model.n_heads, std::max<int64_t>(1, config.data.seq_len), head_size},
                at::TensorOptions().device(device).dtype(scalar_type(config.precision.dtype)));
  x_bhtd.requires_grad_(true);  // some kernels have no backward
  const bool causal = model.type == ModelType::kGpt;
  const QuietWarnings quiet;
  try {
    return static_cast<at::SDPBackend>(
        at::_fused_sdp_choice(x_bhtd, x_bhtd, x_bhtd, {}, model.dropout, causal));
  } catch (const c10::Error& e) {
    if (std::string_view(e.what()).find("No available kernel") == std::string_view::npos) {
      throw;
    }
    return at::SDPBackend::error;
  }
}

std::string attention_subject(const Config& config, const at::Device& device) {
  const char* dtype = config.precision.dtype == Dtype::kFp32   ? "fp32"
                      : config.precision.dtype == Dtype::kBf16 ? "bf16"
                                                               : "fp16";
  std::string text =
      std::string(device.is_cuda() ? "CUDA" : "CPU") + " with " + dtype + ", head size " +
      std::to_string(config.model.d_model / std::max<int64_t>(1, config.model.n_heads));
  if (config.model.dropout > 0) {
    text += ", dropout";
  }
  return text;
}

}  // namespace

std::vector<AttentionTrial> try_attention_backends(const at::Device& device,
                                                   const std::function<double()>& run) {
  std::vector<AttentionTrial> trials;
  for (const AttentionKernel& kernel : kAttentionKernels) {
    if (!device.is_cuda() && !kernel.on_cpu) continue;
    AttentionTrial trial{kernel.name, "", 0};
    enable_attention(kernel.backend);
    const KeptWarnings warnings;
    try {
      trial.result = run();
    } catch (const c10::Error& error) {
      trial.reason = first_line_of(
          warnings.last().empty() ? std::string(error.what_without_backtrace()) : warnings.last());
    }
    trials.push_back(trial);
  }
  enable_attention(AttentionBackend::kAuto);
  return trials;
}

std::string select_attention(const Config& config, const at::Device& device) {
  const AttentionBackend wanted = config.backend.attention;
  std::vector<std::string> available = {"auto"};
  std::string wanted_name = "auto";
  bool exists = wanted == AttentionBackend::kAuto;
  for (const AttentionKernel& kernel : kAttentionKernels) {
    const bool here = device.is_cuda() || kernel.on_cpu;
    if (here) {
      // Only what really serves this model on this device is offered as a cure.
      enable_attention(kernel.backend);
      if (attention_choice(config, device) == kernel.aten) {
        available.emplace_back(kernel.name);
      }
    }
    if (kernel.backend == wanted) {
      wanted_name = kernel.name;
      exists = here;
    }
  }
  enable_attention(wanted);
  const bool serves = std::find(available.begin(), available.end(), wanted_name) != available.end();
  if (!exists || !serves) {
    throw usage_error("backend.attention: \"" + wanted_name + "\" " +
                      (exists ? "cannot serve this model on " : "does not exist on ") +
                      (exists ? attention_subject(config, device) : "CPU") +
                      "; set one of: " + join(available, ", "));
  }
  const at::SDPBackend chosen = attention_choice(config, device);
  for (const AttentionKernel& kernel : kAttentionKernels) {
    if (kernel.aten == chosen) {
      if (wanted != AttentionBackend::kAuto) return kernel.name;
      // The model's fused blocks (src/model/ops) bring their own for the shapes they serve.
      return std::string(device.is_cpu() ? "own, else " : "") + kernel.name + " (auto)";
    }
  }
  return "auto";
}

}  // namespace trainctl
