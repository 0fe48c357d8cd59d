// Two machines, or a machine and the one a run was made on, held against each other.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "trainctl/base/files.h"

namespace trainctl {

struct Snapshot {
  std::string name;                // "runs/a/doctor.json (host7, 2026-11-30T22:10:00Z)"
  nlohmann::ordered_json content;  // diagnosis_to_json's
};

// A run's folder, or a file that `doctor --json` or a run wrote. Throws usage_error.
Snapshot read_snapshot(const fs::path& run_or_file);

struct Difference {
  std::string what;  // where in the evidence: "libraries.libtorch"
  std::string here, there;
  bool numbers = false;  // it can change a run's numbers
};

struct Comparison {
  std::string here, there;
  std::vector<Difference> differences;  // those that can change numbers first
  std::vector<std::string> unknown;     // groups that one of the two could not gather
  bool same_numbers() const;
};

// What changes by itself (free memory, process numbers, temperatures) is left out.
Comparison compare_snapshots(const Snapshot& here, const Snapshot& there);

std::string format_comparison(const Comparison& comparison);
nlohmann::ordered_json comparison_to_json(const Comparison& comparison);

}  // namespace trainctl
