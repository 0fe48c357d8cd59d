#include "model/parameter_builder.h"

#include <ATen/CPUGeneratorImpl.h>

#include "trainctl/runtime/device.h"

namespace trainctl {

at::Generator ParameterBuilder::generator() const {
  const uint64_t index = parameters_->size();
  return at::detail::createCPUGenerator(derive_seed(seed_, kInitStream, index));
}

at::Tensor ParameterBuilder::add(const std::string& name, at::Tensor host_values, ParamKind kind) {
  at::Tensor tensor = host_values.to(device_).requires_grad_();
  parameters_->push_back({name, tensor, kind});
  return tensor;
}

at::Tensor ParameterBuilder::normal(const std::string& name, at::IntArrayRef shape, double std,
                                    ParamKind kind) {
  return add(name, at::empty(shape, at::kFloat).normal_(0.0, std, generator()), kind);
}

at::Tensor ParameterBuilder::uniform(const std::string& name, at::IntArrayRef shape, double bound,
                                     ParamKind kind) {
  return add(name, at::empty(shape, at::kFloat).uniform_(-bound, bound, generator()), kind);
}

at::Tensor ParameterBuilder::constant(const std::string& name, at::IntArrayRef shape, double value,
                                      ParamKind kind) {
  return add(name, at::full(shape, value, at::kFloat), kind);
}

at::Tensor ParameterBuilder::copy_of(const at::Tensor& source, const std::string& name,
                                     ParamKind kind) {
  return add(name, source.detach().clone(), kind);
}

}  // namespace trainctl
