// Shape suffixes: b batch, t time, d model width, f feed-forward width.
#include "model/transformer_stack.h"

#include <tuple>

#include "model/ops/block.h"
#include "model/plain_ops.h"

namespace trainctl {
namespace {

at::Tensor attention_branch(const at::Tensor& x_btd, const BlockWeights& block,
                            const StackOptions& options, const RotaryAngles& angles) {
  const at::Tensor qkv_bt3d = plain::linear(x_btd, block.qkv);
  const at::Tensor heads_btd = plain::attention(qkv_bt3d, options.n_heads, angles, options.causal,
                                                options.attention_dropout);
  return plain::dropout(plain::linear(heads_btd, block.attention_out), options.residual_dropout);
}

at::Tensor mlp_branch(const at::Tensor& x_btd, const BlockWeights& block,
                      const StackOptions& options) {
  at::Tensor hidden_btf = plain::linear_activation(x_btd, block.mlp_up, options.activation);
  hidden_btf = plain::dropout(hidden_btf, options.activation_dropout);
  return plain::dropout(plain::linear(hidden_btf, block.mlp_down), options.residual_dropout);
}

// x ← norm(x + branch(x)), as in Vaswani et al. 2017.
at::Tensor post_norm_stack(at::Tensor x_btd, const std::vector<BlockWeights>& blocks,
                           const StackOptions& options, const RotaryAngles& angles) {
  for (const BlockWeights& block : blocks) {
    const at::Tensor attended_btd = attention_branch(x_btd, block, options, angles);
    x_btd = plain::add_norm(x_btd, attended_btd, block.norm1, options.norm_eps).second;
    const at::Tensor mixed_btd = mlp_branch(x_btd, block, options);
    x_btd = plain::add_norm(x_btd, mixed_btd, block.norm2, options.norm_eps).second;
  }
  return x_btd;
}

// x ← x + branch(norm(x)). Each sum is made together with the norm that reads it next, which for
// the last sum of a block is the next block's first norm, or the final one.
at::Tensor pre_norm_stack(at::Tensor x_btd, const std::vector<BlockWeights>& blocks,
                          const NormWeights& final_norm, const StackOptions& options,
                          const RotaryAngles& angles) {
  at::Tensor normed_btd = plain::layer_norm(x_btd, blocks.front().norm1, options.norm_eps);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const at::Tensor attended_btd = attention_branch(normed_btd, blocks[i], options, angles);
    std::tie(x_btd, normed_btd) =
        plain::add_norm(x_btd, attended_btd, blocks[i].norm2, options.norm_eps);
    const at::Tensor mixed_btd = mlp_branch(normed_btd, blocks[i], options);
    const NormWeights& next = i + 1 < blocks.size() ? blocks[i + 1].norm1 : final_norm;
    if (!next.weight.defined()) return x_btd + mixed_btd;
    std::tie(x_btd, normed_btd) = plain::add_norm(x_btd, mixed_btd, next, options.norm_eps);
  }
  return normed_btd;
}

at::Tensor fused_stack(at::Tensor x_btd, const std::vector<BlockWeights>& blocks,
                       const NormWeights& final_norm, const StackOptions& options) {
  for (const BlockWeights& block : blocks) x_btd = ops::block(x_btd, block, options);
  const bool ends_with_norm = options.norm_order == NormOrder::kPre && final_norm.weight.defined();
  return ends_with_norm ? plain::layer_norm(x_btd, final_norm, options.norm_eps) : x_btd;
}

}  // namespace

at::Tensor transformer_stack(const at::Tensor& x_btd, const std::vector<BlockWeights>& blocks,
                             const NormWeights& final_norm, const StackOptions& options,
                             const RotaryAngles& angles) {
  if (options.fused && ops::serves_block(x_btd, blocks.front(), options, angles.defined())) {
    return fused_stack(x_btd, blocks, final_norm, options);
  }
  if (options.norm_order == NormOrder::kPre) {
    return pre_norm_stack(x_btd, blocks, final_norm, options, angles);
  }
  return post_norm_stack(x_btd, blocks, options, angles);
}

}  // namespace trainctl
