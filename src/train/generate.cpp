#include "trainctl/train/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <vector>

#include "train/evaluation_mode.h"
#include "trainctl/base/error.h"
#include "trainctl/text/byte_tokenizer.h"

namespace trainctl {
namespace {

constexpr double kGreedyBelow = 1e-4;  // logits divided by less leave fp32

int64_t draw_token(at::Tensor logits_v, const GenerateOptions& options, at::Generator& generator) {
  if (!at::isfinite(logits_v).all().item<bool>()) {
    throw UserError(ExitCode::kTrainingFailed,
                    "the model's outputs are not finite numbers, so there is nothing to sample "
                    "from: its training "
                    "diverged; go back to an earlier checkpoint");
  }
  if (options.temperature < kGreedyBelow) return logits_v.argmax().item<int64_t>();
  logits_v = logits_v / options.temperature;
  if (options.top_k > 0 && options.top_k < logits_v.size(0)) {
    const at::Tensor kept = std::get<0>(logits_v.topk(options.top_k));
    logits_v = logits_v.masked_fill(logits_v < kept.min(), -std::numeric_limits<float>::infinity());
  }
  return at::multinomial(logits_v.softmax(-1), 1, /*replacement=*/false, generator).item<int64_t>();
}

}  // namespace

std::string generate_text(Model& model, const Config& config, Device& device,
                          const std::string& prompt, const GenerateOptions& options) {
  at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  std::vector<int64_t> tokens = encode_bytes(prompt);
  if (tokens.empty()) tokens.push_back(kEndOfText);
  const size_t prompt_length = tokens.size();
  const auto context = static_cast<size_t>(config.model.max_seq_len);

  const EvaluationMode evaluation_mode(model);
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    if (options.interrupted && options.interrupted()) break;
    const size_t begin = tokens.size() > context ? tokens.size() - context : 0;
    const at::Tensor window_bt =
        at::from_blob(tokens.data() + begin, {1, static_cast<int64_t>(tokens.size() - begin)},
                      at::kLong)
            .clone();
    AutocastGuard autocast(config.precision.dtype, device.torch_device());
    const at::Tensor logits_v =
        model.logits(device.to_device(window_bt)).select(0, 0).select(0, -1);
    const int64_t token = draw_token(logits_v.to(at::kCPU, at::kFloat), options, generator);
    if (token == kEndOfText) break;
    tokens.push_back(token);
  }
  return decode_bytes({tokens.begin() + static_cast<std::ptrdiff_t>(prompt_length), tokens.end()});
}

}  // namespace trainctl
