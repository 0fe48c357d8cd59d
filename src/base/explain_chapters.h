// The chapters of the table of explanations, one file each.
#pragma once

#include <span>

#include "trainctl/base/explanations.h"

namespace trainctl {

std::span<const ExplanationRow> doctor_explanations();
std::span<const ExplanationRow> memory_explanations();
std::span<const ExplanationRow> cudnn_explanations();
std::span<const ExplanationRow> nccl_explanations();

}  // namespace trainctl
