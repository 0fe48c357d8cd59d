// Variables that make a run slow, or make libraries behave in ways nobody asked for.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainctl::doctor {

using Variables = std::map<std::string, std::string>;

std::string value_of(const Variables& variables, const std::string& name);

struct OddVariable {
  std::string name, value, effect, cure;
};

// Those whose value slows a run down, by a table.
std::vector<OddVariable> slow_variables(const Variables& variables);

// What is wrong with PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF for LibTorch 2.11.
std::optional<OddVariable> wrong_allocator_setting(const Variables& variables);

// OMP_NUM_THREADS and its kin against the processors that may be used.
std::optional<OddVariable> wrong_thread_setting(const Variables& variables, int64_t processors);

}  // namespace trainctl::doctor
