// Variables of NCCL whose name or value cannot be meant.
#pragma once

#include <optional>

#include "doctor/context_variables.h"

namespace trainctl::doctor {

struct WrongNcclVariable {
  std::string name, value;
  std::string allowed;  // values; empty where the name itself is wrong
  std::string near;     // the name that may be meant
};

// The first one, if any. By NCCL's user guide (environment variables) and the names that NCCL 2.28
// reads. A name it does not know is an error only where it is close to one that it knows: plug-ins
// have variables of their own.
std::optional<WrongNcclVariable> wrong_nccl_variable(const Variables& variables);

}  // namespace trainctl::doctor
