// The chapters of the table of explanations, one file each.
#pragma once

#include <span>

#include "trainctl/base/explanations.h"

namespace trainctl {

std::span<const ExplanationRow> doctor_explanations();

}  // namespace trainctl
