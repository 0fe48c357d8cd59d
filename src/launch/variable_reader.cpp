#include "launch/variable_reader.h"

#include <charconv>

#include "trainctl/base/error.h"

namespace trainctl {

std::string VariableReader::saying(const std::string& name) const {
  const auto value = lookup_(name);
  return value ? name + " is " + *value : name + " is not set";
}

std::optional<int64_t> VariableReader::number(const std::string& name, int64_t low) const {
  const auto text = lookup_(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < low) {
    throw usage_error(
        "the environment variable " + name + " is '" + *text + "', which is no whole number from " +
        std::to_string(low) +
        " on; whoever starts the ranks (trainctl launch, torchrun, srun) sets it: unset "
        "it for a single process");
  }
  return value;
}

int64_t VariableReader::required(const std::string& name, const std::string& because,
                                 int64_t low) const {
  const auto value = number(name, low);
  if (!value) {
    throw usage_error(
        because + ", but " + name +
        " is not set; start the ranks with trainctl launch, torchrun or srun, which set "
        "both, or unset the first for a single process");
  }
  return *value;
}

void require_below(const VariableReader& variables, const std::string& index_name, int64_t index,
                   const std::string& count_name, int64_t count) {
  if (index < count) return;
  throw usage_error(variables.saying(index_name) + ", but " + variables.saying(count_name) + ": " +
                    index_name + " counts from 0 to " + std::to_string(count - 1) +
                    "; start the ranks with trainctl launch, torchrun or srun");
}

}  // namespace trainctl
