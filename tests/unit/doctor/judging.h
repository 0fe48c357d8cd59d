// A probe asked about made-up evidence.
#pragma once

#include <gtest/gtest.h>

#include "doctor/groups.h"

namespace trainctl::doctor {

template <class T>
Finding judge(const Group& group, const std::string& id, const T& own,
              const DoctorOptions& options = {}) {
  for (const Probe& probe : group.probes) {
    if (id == probe.id) return probe.judge(Json{{group.name, to_evidence(own)}}, options);
  }
  ADD_FAILURE() << "no probe " << id;
  return {};
}

inline DoctorOptions for_cpu() {
  DoctorOptions options;
  options.device = "cpu";
  return options;
}

// "unfit shm-small", or the verdict alone.
inline std::string said(const Finding& finding) {
  static constexpr const char* kNames[] = {"ok", "note", "warning", "unfit"};
  std::string text = kNames[static_cast<size_t>(finding.verdict)];
  if (!finding.explanation.empty()) {
    EXPECT_FALSE(finding.cause.empty());
    EXPECT_FALSE(finding.cure.empty());
    text += " " + finding.explanation;
  }
  return text;
}

}  // namespace trainctl::doctor
