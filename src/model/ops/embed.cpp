// Shape suffixes: b batch, t time, d model width, v vocabulary, n = b · t.
#include "model/ops/embed.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>

#include "model/ops/buffers.h"
#include "model/ops/guards.h"
#include "model/ops/threads.h"
#include "model/weights.h"

namespace trainctl::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_tokens(const at::Tensor& tokens_bt, int64_t vocabulary) {
  const int64_t* tokens = tokens_bt.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < tokens_bt.numel(); ++i) {
    TORCH_CHECK_INDEX(tokens[i] >= 0 && tokens[i] < vocabulary, "token ", tokens[i],
                      " is outside the vocabulary of ", vocabulary);
  }
}

// Each thread takes a range of columns, so that rows add up in the same order at any thread count.
template <typename AddRow>
void by_columns(int64_t rows, int64_t width, const AddRow& add_row) {
  const int64_t parts = std::min(parts_of(rows * width, kElementsPerThread), width);
  for_parts(width, parts, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows; ++row) add_row(row, begin, end);
  });
}

at::Tensor token_gradient(const at::Tensor& grad_btd, const at::Tensor& tokens_bt,
                          int64_t vocabulary) {
  const int64_t width = grad_btd.size(-1);
  at::Tensor result_vd = at::zeros({vocabulary, width}, grad_btd.options());
  const float* grad = read<float>(grad_btd);
  const int64_t* tokens = tokens_bt.const_data_ptr<int64_t>();
  float* result = write<float>(result_vd);
  by_columns(tokens_bt.numel(), width, [=](int64_t row, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) result[tokens[row] * width + j] += grad[row * width + j];
  });
  return result_vd;
}

at::Tensor position_gradient(const at::Tensor& grad_btd, int64_t positions) {
  const int64_t time = grad_btd.size(1), width = grad_btd.size(2);
  at::Tensor result_td = at::zeros({positions, width}, grad_btd.options());
  const float* grad = read<float>(grad_btd);
  float* result = write<float>(result_td);
  by_columns(grad_btd.size(0) * time, width, [=](int64_t row, int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) result[row % time * width + j] += grad[row * width + j];
  });
  return result_td;
}

struct EmbedFunction : torch::autograd::Function<EmbedFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tokens,
                            const at::Tensor& token_table,
                            const std::optional<at::Tensor>& optional_positions,
                            bool sparse_gradient) {
    const RawGuard raw;
    const at::Tensor position_table = optional_positions.value_or(at::Tensor());
    const at::Tensor tokens_bt = tokens.contiguous();
    check_tokens(tokens_bt, token_table.size(0));
    const int64_t time = tokens_bt.size(1), width = token_table.size(1);
    at::Tensor out_btd = empty<float>({tokens_bt.size(0), time, width});
    const float* table = read<float>(token_table);
    const float* positions = read_optional(position_table);
    const int64_t* token = tokens_bt.const_data_ptr<int64_t>();
    float* out = write<float>(out_btd);
    const int64_t rows = tokens_bt.numel();
    for_parts(rows, parts_of(rows * width, kElementsPerThread),
              [=](int64_t, int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  const float* from = table + token[row] * width;
                  float* to = out + row * width;
                  std::copy_n(from, width, to);
                  if (positions == nullptr) continue;
                  const float* position = positions + row % time * width;
                  for (int64_t j = 0; j < width; ++j) to[j] += position[j];
                }
              });
    context->save_for_backward({tokens_bt});
    context->saved_data["vocabulary"] = token_table.size(0);
    context->saved_data["positions"] = position_table.defined() ? position_table.size(0) : 0;
    context->saved_data["sparse"] = sparse_gradient;
    return out_btd;
  }

  static variable_list backward(AutogradContext* context, variable_list out_grads) {
    const RawGuard raw;
    const at::Tensor tokens_bt = context->get_saved_variables().front();
    const at::Tensor grad_btd = out_grads[0].contiguous();
    const int64_t vocabulary = context->saved_data["vocabulary"].toInt();
    const int64_t positions = context->saved_data["positions"].toInt();
    const int64_t width = grad_btd.size(-1);
    variable_list result(4);
    result[1] = context->saved_data["sparse"].toBool()
                    ? at::_sparse_coo_tensor_unsafe(tokens_bt.view({1, -1}),
                                                    grad_btd.view({-1, width}), {vocabulary, width},
                                                    grad_btd.options().layout(at::kSparse))
                    : token_gradient(grad_btd, tokens_bt, vocabulary);
    if (positions > 0) result[2] = position_gradient(grad_btd, positions);
    return result;
  }
};

}  // namespace

bool serves_embed(const at::Tensor& token_table) {
  return token_table.device().is_cpu() && token_table.scalar_type() == at::kFloat &&
         token_table.is_contiguous();
}

at::Tensor embed(const at::Tensor& tokens_bt, const at::Tensor& token_table,
                 const at::Tensor& position_table, bool sparse_gradient) {
  return EmbedFunction::apply(tokens_bt, token_table, optional_tensor(position_table),
                              sparse_gradient);
}

}  // namespace trainctl::ops
