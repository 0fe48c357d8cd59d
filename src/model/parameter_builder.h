// Creates and initialises a model's parameters in order.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trainctl/model/model.h"

namespace trainctl {

// Values are drawn on the CPU, each parameter from a generator of its own seeded by (seed,
// kInitStream, its index), so that they are the same on every device and rank, and a tensor's
// values do not depend on the sizes of those before it.
class ParameterBuilder {
 public:
  ParameterBuilder(uint64_t seed, at::Device device, std::vector<NamedParameter>* parameters)
      : seed_(seed), device_(device), parameters_(parameters) {}

  at::Tensor normal(const std::string& name, at::IntArrayRef shape, double std, ParamKind kind);
  // On [-bound, bound).
  at::Tensor uniform(const std::string& name, at::IntArrayRef shape, double bound, ParamKind kind);
  at::Tensor constant(const std::string& name, at::IntArrayRef shape, double value, ParamKind kind);
  // A parameter of its own that starts with the values of another.
  at::Tensor copy_of(const at::Tensor& source, const std::string& name, ParamKind kind);

 private:
  at::Generator generator() const;
  at::Tensor add(const std::string& name, at::Tensor host_values, ParamKind kind);

  uint64_t seed_;
  at::Device device_;
  std::vector<NamedParameter>* parameters_;
};

}  // namespace trainctl
