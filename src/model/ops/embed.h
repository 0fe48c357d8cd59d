// Token and position embeddings as one node, for the CPU.
#pragma once

#include <ATen/ATen.h>

namespace trainctl::ops {

bool serves_embed(const at::Tensor& token_table);

// As plain::embed. With `sparse_gradient` the token table's gradient holds only the rows that
// occur: for a table that is also the head, whose dense gradient takes them up.
at::Tensor embed(const at::Tensor& tokens_bt, const at::Tensor& token_table,
                 const at::Tensor& position_table, bool sparse_gradient);

}  // namespace trainctl::ops
