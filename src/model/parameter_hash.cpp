#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "trainctl/base/files.h"
#include "trainctl/model/model.h"

namespace trainctl {

// Each parameter counts as its name, a zero byte, the number of its dimensions and their sizes as
// little-endian 64-bit integers, and its values in fp32: no two different sets give the same bytes.
uint64_t parameter_hash(const Model& model) {
  std::vector<const NamedParameter*> sorted;
  for (const NamedParameter& parameter : model.parameters()) sorted.push_back(&parameter);
  std::sort(sorted.begin(), sorted.end(),
            [](const auto* a, const auto* b) { return a->name < b->name; });

  Checksum sum;
  for (const NamedParameter* parameter : sorted) {
    const at::Tensor values = parameter->tensor.detach().to(at::kCPU, at::kFloat).contiguous();
    const at::IntArrayRef sizes = values.sizes();
    const auto n_dims = static_cast<int64_t>(sizes.size());
    sum.update(std::as_bytes(std::span(parameter->name.c_str(), parameter->name.size() + 1)));
    sum.update(std::as_bytes(std::span(&n_dims, 1)));
    sum.update(std::as_bytes(std::span(sizes.data(), sizes.size())));
    sum.update(std::as_bytes(
        std::span(values.const_data_ptr<float>(), static_cast<size_t>(values.numel()))));
  }
  return sum.digest();
}

}  // namespace trainctl
