#include "doctor/ask_driver.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "doctor/in_child.h"

namespace trainctl::doctor {

DriverAnswers ask_driver(bool about_devices, const DoctorOptions& options) {
  // Before the group's own deadline, or all it has gathered would be lost.
  constexpr std::chrono::milliseconds kReserve{300};
  const auto deadline = std::max(options.deadline - kReserve, options.deadline / 2);
  const auto text = [](const auto& answer) {
    return to_evidence(answer).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const std::vector<std::function<std::string()>> questions = {
      [&] { return text(ask_cuda(about_devices)); },
      [&] { return text(ask_nvml(about_devices, options.root)); }};
  const std::vector<ChildAnswer> answers = in_children(questions, deadline);
  DriverAnswers out;
  const auto read = [](const ChildAnswer& answer, auto* into) {
    into->unanswered = answer.failed;
    if (answer.failed.empty()) nlohmann::json::parse(answer.text).get_to(*into);
  };
  read(answers[0], &out.cuda);
  read(answers[1], &out.nvml);
  return out;
}

}  // namespace trainctl::doctor
