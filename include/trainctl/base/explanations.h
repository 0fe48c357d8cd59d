// What the known errors of a machine mean and what to do about them: one table, for doctor's
// probes, for errors raised in a run and for docs/troubleshooting.md, which is generated from it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trainctl/base/error.h"

namespace trainctl {

struct Explanation {
  std::string cause;
  std::string cure;
  std::string text() const { return cause + "; " + cure; }
};

struct ExplanationRow {
  const char* id;     // "fabric-manager": frozen, since links, JSON and scripts name it
  const char* title;  // what the user meets, as a heading
  // What error texts of this kind say, for recognize_error: parts that must all appear, in this
  // order, divided by '*'; upper and lower case are the same.
  std::vector<const char*> patterns;
  const char* cause;     // one clause; {name} stands for a fact
  const char* cure;      // one clause, imperative; {name} likewise
  const char* known_by;  // how one can see it for oneself: the file, call or command that tells
  ExitCode exit_code = ExitCode::kEnvironment;  // of a run that dies of it
};

struct ExplanationGroup {
  const char* title;  // a chapter of docs/troubleshooting.md
  std::span<const ExplanationRow> rows;
};

// Every row, by chapter. Rows of a chapter stand in src/base/explain_<chapter>.cpp.
std::span<const ExplanationGroup> explanation_groups();

using Facts = std::vector<std::pair<std::string_view, std::string>>;

// The row's cause and cure with facts put in. An id or a fact that does not exist is a defect
// (std::logic_error); a test asks for every row.
Explanation explain(std::string_view id, const Facts& facts = {});

struct RecognizedError {
  const ExplanationRow* row;
  Explanation why;
};

// A row with facts put in; what is not known is left out, or stands as "…".
RecognizedError fill_row(const ExplanationRow& row, const Facts& facts);

// What a library's error text (of CUDA, cuDNN, NCCL, Gloo, the loader, the kernel …) means, if it
// is a known one. Rows higher up win.
std::optional<RecognizedError> recognize_error(std::string_view text, const Facts& facts = {});

// docs/troubleshooting.md.
std::string troubleshooting_markdown();

}  // namespace trainctl
