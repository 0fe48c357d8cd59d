// A diagnosis as text for a person, and as JSON for a script.
#include <algorithm>

#include "trainctl/base/version.h"
#include "trainctl/doctor/doctor.h"

namespace trainctl {
namespace {

struct VerdictWords {
  Verdict verdict;
  const char* mark;  // in the text
  const char* name;  // in JSON
};
constexpr VerdictWords kVerdicts[] = {{Verdict::kOk, "ok", "ok"},
                                      {Verdict::kNote, "note", "note"},
                                      {Verdict::kWarning, "warn", "warning"},
                                      {Verdict::kUnfit, "FAIL", "unfit"}};

const VerdictWords& words_of(Verdict verdict) { return kVerdicts[static_cast<size_t>(verdict)]; }

size_t title_width(const Diagnosis& diagnosis) {
  size_t width = 0;
  for (const ProbeResult& probe : diagnosis.probes) width = std::max(width, probe.title.size());
  return width;
}

std::string probe_lines(const ProbeResult& probe, size_t width) {
  const Finding& finding = probe.finding;
  std::string mark = words_of(finding.verdict).mark;
  mark.resize(5, ' ');
  std::string title = probe.title;
  title.resize(width + 2, ' ');
  std::string text = "  " + mark + title + finding.found + "\n";
  const std::string indent(7, ' ');
  if (!finding.cause.empty()) text += indent + "why:  " + finding.cause + "\n";
  if (!finding.cure.empty()) text += indent + "cure: " + finding.cure + "\n";
  return text;
}

std::string verdict_line(const Diagnosis& diagnosis) {
  const auto count = [&](Verdict verdict) {
    return std::count_if(
        diagnosis.probes.begin(), diagnosis.probes.end(),
        [&](const ProbeResult& probe) { return probe.finding.verdict == verdict; });
  };
  const auto plural = [](auto number, const std::string& word) {
    return std::to_string(number) + " " + word + (number == 1 ? "" : "s");
  };
  const auto warnings = count(Verdict::kWarning);
  const std::string also = warnings > 0 ? ", " + plural(warnings, "warning") : "";
  if (diagnosis.fit()) return "This machine is fit" + also + ".\n";
  return "This machine is not fit: " + plural(count(Verdict::kUnfit), "failure") + also + ".\n";
}

}  // namespace

std::string format_diagnosis(const Diagnosis& diagnosis, bool verbose) {
  const size_t width = title_width(diagnosis);
  std::string text, group;
  for (const ProbeResult& probe : diagnosis.probes) {
    if (!verbose && probe.finding.verdict == Verdict::kOk && probe.finding.found.empty()) continue;
    if (probe.group != group) text += (group.empty() ? "" : "\n") + (group = probe.group) + "\n";
    text += probe_lines(probe, width);
  }
  return text + "\n" + verdict_line(diagnosis);
}

nlohmann::ordered_json diagnosis_to_json(const Diagnosis& diagnosis) {
  nlohmann::ordered_json out;
  out["trainctl"] = kVersion;
  out["build"] = kBuildId;
  out["fit"] = diagnosis.fit();
  out["probes"] = nlohmann::ordered_json::array();
  for (const ProbeResult& probe : diagnosis.probes) {
    const Finding& finding = probe.finding;
    nlohmann::ordered_json line = {{"id", probe.id},
                                   {"group", probe.group},
                                   {"title", probe.title},
                                   {"verdict", words_of(finding.verdict).name},
                                   {"found", finding.found}};
    if (!finding.explanation.empty()) line["explanation"] = finding.explanation;
    if (!finding.cause.empty()) line["cause"] = finding.cause;
    if (!finding.cure.empty()) line["cure"] = finding.cure;
    out["probes"].push_back(std::move(line));
  }
  out["evidence"] = diagnosis.evidence;
  return out;
}

}  // namespace trainctl
