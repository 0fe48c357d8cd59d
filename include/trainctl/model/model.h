// A model for one device. Parallelism is applied from outside; the loss is returned as a sum, so
// that the caller divides by the valid targets of the whole global batch (docs/design.md, loss
// contract).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainctl/config/config.h"

namespace trainctl {

inline constexpr int64_t kIgnoreIndex = -100;  // target that counts for nothing, as in PyTorch

enum class ParamKind { kMatrix, kEmbedding, kNorm, kBias };

struct NamedParameter {
  std::string name;   // "layers.0.attention.qkv.weight"
  at::Tensor tensor;  // leaf that requires grad, fp32
  ParamKind kind = ParamKind::kMatrix;
};

class Model {
 public:
  virtual ~Model() = default;

  // tokens_bt [batch, seq] int64 → logits [batch, seq, vocab_size], or [batch, n_classes] when
  // pooled.
  virtual at::Tensor logits(const at::Tensor& tokens_bt) = 0;

  // Sum over valid targets of the cross-entropy (with label smoothing as
  // torch.nn.functional.cross_entropy defines it), fp32 scalar. targets [batch, seq], or [batch]
  // when pooled; kIgnoreIndex marks invalid.
  virtual at::Tensor loss_sum(const at::Tensor& tokens_bt, const at::Tensor& targets,
                              double label_smoothing) = 0;

  virtual void set_training(bool training) = 0;  // dropout on or off
  bool targets_per_sequence() const { return targets_per_sequence_; }

  // In a fixed order; a tied weight once.
  const std::vector<NamedParameter>& parameters() const { return parameters_; }

  // Names of parameters that are the same tensor as another, for export: {alias, owner}.
  const std::vector<std::pair<std::string, std::string>>& aliases() const { return aliases_; }

 protected:
  std::vector<NamedParameter> parameters_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  bool targets_per_sequence_ = false;
};

// Builds and initialises on `device`; initial values are drawn on CPU from `seed`, so that they are
// the same on every device and rank.
std::unique_ptr<Model> make_model(const ModelConfig& config, const BackendConfig& backend,
                                  uint64_t seed, at::Device device);

// Checksum over all parameters in name order (name, shape, bytes in fp32).
uint64_t parameter_hash(const Model& model);

}  // namespace trainctl
