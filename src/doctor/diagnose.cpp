// Gathers every group's evidence at once, each in a child process, then asks the probes.
#include <algorithm>
#include <functional>

#include "doctor/group.h"
#include "doctor/in_child.h"

namespace trainctl {
namespace doctor {
namespace {

Evidence gather(const DoctorOptions& options) {
  std::vector<const Group*> asked;
  std::vector<std::function<std::string()>> functions;
  for (const Group& group : groups()) {
    if (options.quick && !group.in_snapshot) continue;
    asked.push_back(&group);
    functions.emplace_back([&group, &options] {
      // Foreign text (paths, variables) need not be UTF-8.
      return group.gather(options).dump(-1, ' ', false, Json::error_handler_t::replace);
    });
  }
  const std::vector<ChildAnswer> answers = in_children(functions, options.deadline);
  Evidence evidence = Evidence::object();
  for (size_t i = 0; i < asked.size(); ++i) {
    const ChildAnswer& answer = answers[i];
    evidence[asked[i]->name] =
        answer.failed.empty() ? Json::parse(answer.text) : Json{{"failed", answer.failed}};
  }
  return evidence;
}

ProbeResult ask(const Group& group, const Probe& probe, const Evidence& evidence,
                const DoctorOptions& options) {
  ProbeResult result{probe.id, group.name, probe.title, {}};
  const Json& own = evidence.at(group.name);
  if (own.contains("failed")) {
    result.finding = wrong(Verdict::kWarning, "not known", "no-answer",
                           {{"group", group.name}, {"why", own["failed"].get<std::string>()}});
    return result;
  }
  try {
    result.finding = probe.judge(evidence, options);
  } catch (const Json::exception&) {
    // It also wants the evidence of a group that did not answer, which has its own finding.
    result.finding = {Verdict::kNote, "not known", "", "", ""};
  }
  return result;
}

}  // namespace
}  // namespace doctor

bool Diagnosis::fit() const {
  return std::none_of(probes.begin(), probes.end(), [](const ProbeResult& probe) {
    return probe.finding.verdict == Verdict::kUnfit;
  });
}

Diagnosis diagnose(const DoctorOptions& options) {
  Diagnosis diagnosis;
  diagnosis.evidence = doctor::gather(options);
  for (const doctor::Group& group : doctor::groups()) {
    if (!diagnosis.evidence.contains(group.name)) continue;
    for (const doctor::Probe& probe : group.probes) {
      diagnosis.probes.push_back(doctor::ask(group, probe, diagnosis.evidence, options));
    }
  }
  return diagnosis;
}

std::vector<ProbeDescription> list_probes() {
  std::vector<ProbeDescription> probes;
  for (const doctor::Group& group : doctor::groups()) {
    for (const doctor::Probe& probe : group.probes) {
      probes.push_back({probe.id, group.name, probe.title});
    }
  }
  return probes;
}

}  // namespace trainctl
