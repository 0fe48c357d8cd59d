// Explanations of what the CUDA runtime and the loader say when CUDA does not start.
#include <string_view>

#include "trainctl/base/gpu_evidence.h"
#include "trainctl/base/shared_objects.h"

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

Explanation explain_cuda_load_failure(const std::string& library, const std::string& dlerror_text) {
  const std::string_view text = dlerror_text;
  const size_t colon = text.find(": ");
  const std::string object(text.substr(0, colon));
  if (text.find("cannot open shared object file") != std::string_view::npos) {
    const std::string base = object.substr(object.rfind('/') + 1);
    const std::string provider = provider_of(base);
    const std::string brings =
        provider.empty() ? "install the package that brings " + base : "it comes with " + provider;
    return {library + " does not load: " + base + " was not found",
            brings +
                "; run scripts/setup.sh to install the whole set, or add its folder to "
                "LD_LIBRARY_PATH"};
  }
  if (text.find("undefined symbol") != std::string_view::npos ||
      (text.find("version `") != std::string_view::npos &&
       text.find("not found") != std::string_view::npos)) {
    return {
        library + " does not load: " + dlerror_text,
        "a library of another version comes first: take older ones out of LD_LIBRARY_PATH (module "
        "systems and conda set it), or rebuild against this LibTorch"};
  }
  return {library + " does not load: " + dlerror_text, "run scripts/setup.sh and rebuild"};
}

}  // namespace trainctl
