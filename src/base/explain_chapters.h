// The chapters of the table of explanations, one file each.
#pragma once

#include <span>

#include "trainctl/base/explanations.h"

namespace trainctl {

std::span<const ExplanationRow> driver_explanations();
std::span<const ExplanationRow> library_explanations();
std::span<const ExplanationRow> gpu_explanations();
std::span<const ExplanationRow> doctor_explanations();
std::span<const ExplanationRow> limits_explanations();
std::span<const ExplanationRow> network_explanations();
std::span<const ExplanationRow> storage_explanations();
std::span<const ExplanationRow> context_explanations();
std::span<const ExplanationRow> memory_explanations();
std::span<const ExplanationRow> cudnn_explanations();
std::span<const ExplanationRow> nccl_explanations();

}  // namespace trainctl
