#include <gmock/gmock.h>

#include "trainctl/base/explanations.h"
#include "trainctl/doctor/doctor.h"

namespace trainctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ProbeResult result(const std::string& id, Verdict verdict, const std::string& found) {
  ProbeResult probe{id, id.substr(0, id.find('.')), "title of " + id, {}};
  probe.finding.verdict = verdict;
  probe.finding.found = found;
  if (verdict != Verdict::kOk) {
    const Explanation why = explain("fabric-manager");
    probe.finding.explanation = "fabric-manager";
    probe.finding.cause = why.cause;
    probe.finding.cure = why.cure;
  }
  return probe;
}

Diagnosis mixed() {
  Diagnosis diagnosis;
  diagnosis.evidence["driver"] = {{"kernel_driver", "580"}};
  diagnosis.probes = {result("driver.loaded", Verdict::kUnfit, "error 802"),
                      result("driver.fabric_manager", Verdict::kUnfit, "not running"),
                      result("libraries.tools", Verdict::kOk, "c++"),
                      result("libraries.libtorch", Verdict::kOk, "2.11.0")};
  return diagnosis;
}

TEST(FormatDiagnosis, TellsWhatMattersOnceAndCountsTheRest) {
  const std::string text = format_diagnosis(mixed(), {});
  EXPECT_THAT(text, HasSubstr("FAIL title of driver.loaded"));
  EXPECT_THAT(text, HasSubstr("cure: start it in the driver's version"));
  EXPECT_THAT(text, HasSubstr("why:  as above"));
  EXPECT_EQ(text.find("cure:"), text.rfind("cure:"));
  EXPECT_THAT(text, HasSubstr("2.11.0"));
  EXPECT_THAT(text, Not(HasSubstr("libraries.tools")));
  EXPECT_THAT(text, HasSubstr("1 more probes found nothing wrong"));
  EXPECT_THAT(text, HasSubstr("not fit: 2 failures."));
  EXPECT_THAT(text, Not(HasSubstr("\033[")));
}

TEST(FormatDiagnosis, VerboseTellsAllAndTheEvidence) {
  DiagnosisStyle style;
  style.verbose = true;
  const std::string text = format_diagnosis(mixed(), style);
  EXPECT_THAT(text, HasSubstr("libraries.tools"));
  EXPECT_THAT(text, HasSubstr("kernel_driver: 580"));
  EXPECT_THAT(text, HasSubstr("see:  systemctl status nvidia-fabricmanager"));
}

TEST(FormatDiagnosis, LinesKeepToTheWidth) {
  DiagnosisStyle style;
  style.width = 70;
  const std::string text = format_diagnosis(mixed(), style);
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_LE(end - at, 72U) << text.substr(at, end - at);
    at = end + 1;
  }
}

TEST(FormatDiagnosis, ColoursOnlyWhenAsked) {
  DiagnosisStyle style;
  style.colour = true;
  EXPECT_THAT(format_diagnosis(mixed(), style), HasSubstr("\033[31m"));
}

}  // namespace
}  // namespace trainctl
