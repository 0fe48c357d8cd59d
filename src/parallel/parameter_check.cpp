#include "trainctl/parallel/parameter_check.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "trainctl/base/files.h"
#include "trainctl/base/strings.h"

namespace trainctl {
namespace {

std::string values_checksum(const at::Tensor& parameter) {
  const at::Tensor values = parameter.detach().to(at::kCPU).contiguous();
  const auto* bytes = static_cast<const std::byte*>(values.const_data_ptr());
  return to_hex(checksum(std::span(bytes, values.nbytes())));
}

// Empty when there is none. `all` holds each rank's checksums, one after the other.
std::string first_difference(const Model& model, const std::vector<std::string>& all) {
  const size_t width = all[0].size() / model.parameters().size();
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    std::vector<std::string> different;
    for (size_t rank = 1; rank < all.size(); ++rank) {
      const bool same = all[rank].compare(i * width, width, all[0], i * width, width) == 0;
      if (!same) different.push_back(std::to_string(rank));
    }
    if (different.empty()) continue;
    return "'" + model.parameters()[i].name + "' differs from rank 0's on rank" +
           (different.size() > 1 ? "s " : " ") + join(different, ", ");
  }
  return "";
}

}  // namespace

void check_parameters_equal(const Model& model, Communicator& communicator, int64_t step) {
  if (!communicator.world().distributed()) return;
  std::string mine;
  for (const NamedParameter& parameter : model.parameters()) {
    mine += values_checksum(parameter.tensor);
  }
  const std::vector<std::string> all = communicator.gather(mine, "comparison of parameters");
  const std::string difference = first_difference(model, all);
  if (difference.empty()) return;
  communicator.together("comparison of parameters", [&] {
    if (!communicator.is_main()) return;
    throw UserError(ExitCode::kTrainingFailed,
                    "the ranks hold different parameters " +
                        (step > 0 ? "after step " + std::to_string(step) : "at the start") + ": " +
                        difference +
                        ". Nothing in a run allows that: suspect that host's processor, GPU or "
                        "memory, or other libraries there, and go on from a checkpoint of before");
  });
}

}  // namespace trainctl
