// Variables of launchers, read with messages that name them and their values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "trainctl/launch/process_world.h"

namespace trainctl {

class VariableReader {
 public:
  explicit VariableReader(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(const std::string& name) const { return lookup_(name); }
  // Whole numbers from `low` on.
  std::optional<int64_t> number(const std::string& name, int64_t low = 0) const;
  // `because`: which variable says that there must be one, with its value.
  int64_t required(const std::string& name, const std::string& because, int64_t low = 0) const;

  // "RANK is 3"
  std::string saying(const std::string& name) const;

 private:
  const EnvironmentLookup& lookup_;
};

// Refuses an index that is not below its count.
void require_below(const VariableReader& variables, const std::string& index_name, int64_t index,
                   const std::string& count_name, int64_t count);

}  // namespace trainctl
