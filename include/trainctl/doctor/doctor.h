// Knows the machine: gathers evidence, judges it by a table of probes, and says cause and cure.
// Works where no library of the engine loads. Evidence is gathered in child processes with a
// deadline each, so that a hanging file system, a driver that blocks or a library that crashes
// costs one finding, not the command; probes are pure functions of the evidence.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

struct DoctorOptions {
  fs::path root = "/";                       // tests look at a made-up machine
  std::string device = "auto";               // "cpu": a machine without a GPU is fit
  fs::path output_dir = "runs";              // whose storage is judged
  std::vector<std::string> hosts;            // "name:port" or "name", to be reached
  std::chrono::milliseconds deadline{1800};  // for each group's evidence
  bool quick = false;  // a run's snapshot: nothing that takes long or touches the network
};

enum class Verdict {
  kOk,
  kNote,     // worth knowing, nothing to do
  kWarning,  // works, but slower or riskier than it need be
  kUnfit,    // a run that needs it fails
};

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string found;        // one line: what is there
  std::string explanation;  // the row's id in base/explanations.h, when something is wrong
  std::string cause, cure;
};

struct ProbeResult {
  std::string id, group, title;
  Finding finding;
};

struct Diagnosis {
  nlohmann::ordered_json evidence;  // by group, as gathered: what --json shows, --compare compares
  std::vector<ProbeResult> probes;  // in the order of the table
  bool fit() const;                 // no probe says kUnfit
};

// Never throws for anything the machine does.
Diagnosis diagnose(const DoctorOptions& options);

struct DiagnosisStyle {
  bool verbose = false;  // everything that was found, and how one can see for oneself
  bool colour = false;
  int width = 100;  // columns
};

// For a person: groups, a line per probe, cause and cure below those that are not well.
std::string format_diagnosis(const Diagnosis& diagnosis, const DiagnosisStyle& style);
nlohmann::ordered_json diagnosis_to_json(const Diagnosis& diagnosis);

struct ProbeDescription {
  std::string id, group, title;
};
// The table of probes, for documentation.
std::vector<ProbeDescription> list_probes();

}  // namespace trainctl
