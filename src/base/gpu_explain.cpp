// Explanations of what the CUDA runtime says when CUDA does not start.
#include "trainctl/base/gpu_evidence.h"

namespace trainctl {
namespace {

struct StatusRow {
  int status;  // cudaError_t and CUresult, frozen values of cuda_runtime_api.h and cuda.h
  const char* explanation;
};

constexpr StatusRow kStatusRows[] = {
    {2, "gpu-memory-full"},          {3, "cuda-does-not-start"}, {34, "stub-libcuda"},
    {35, "driver-too-old"},          {46, "gpu-busy"},           {100, "cuda-sees-no-gpu"},
    {101, "invalid-device-ordinal"}, {209, "gpu-too-old"},       {214, "gpu-ecc-errors"},
    {719, "gpu-launch-failure"},     {802, "fabric-manager"},    {803, "driver-parts-mismatch"},
    {804, "forward-compatibility"},  {805, "mps-failed"},        {999, "cuda-unknown-error"},
};

}  // namespace

std::string_view cuda_status_explanation(int status) {
  for (const StatusRow& row : kStatusRows) {
    if (row.status == status) return row.explanation;
  }
  return "";
}

Explanation explain_cuda_status(int status, const std::string& name, const std::string& text,
                                const GpuEvidence& evidence) {
  const std::string suffix = " (CUDA error " + std::to_string(status) + ", " + name + ")";
  const std::string_view known = cuda_status_explanation(status);
  Facts facts = driver_facts(evidence);
  facts.insert(facts.end(), {{"error", text}, {"gpu", "this GPU"}, {"errors", "errors"}});
  Explanation why = explain(known.empty() ? "cuda-other-error" : known, facts);
  why.cause += suffix;
  return why;
}

}  // namespace trainctl
