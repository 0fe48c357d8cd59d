// One group of probes: what it gathers, and how it judges it. A group is one file (or two) and one
// row in the table of groups.cpp; a probe is one row in its group's table.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "trainctl/base/explanations.h"
#include "trainctl/doctor/doctor.h"

namespace trainctl::doctor {

using Json = nlohmann::ordered_json;

// The evidence of all groups, by group name. A group whose gathering failed holds {"failed": why}
// and its probes are not asked.
using Evidence = Json;

struct Probe {
  const char* id;     // "driver.loaded": frozen
  const char* title;  // "NVIDIA driver"
  Finding (*judge)(const Evidence& evidence, const DoctorOptions& options);
};

struct Group {
  const char* name;
  // Runs in a child process, which ends with it: it may load libraries and change limits.
  Json (*gather)(const DoctorOptions& options);
  std::span<const Probe> probes;
  bool in_snapshot;  // gathered for a run's snapshot too: cheap, and without the network
};

std::span<const Group> groups();

// A finding for something wrong: cause and cure come from the table of explanations.
Finding wrong(Verdict verdict, const std::string& found, std::string_view explanation_id,
              const Facts& facts = {});

// A group's evidence as its own struct (NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT, which
// knows only the plain kind of JSON).
template <class T>
T evidence_of(const Evidence& evidence, const char* group) {
  return nlohmann::json(evidence.at(group)).get<T>();
}
template <class T>
Json to_evidence(const T& found) {
  return nlohmann::json(found);
}

}  // namespace trainctl::doctor
