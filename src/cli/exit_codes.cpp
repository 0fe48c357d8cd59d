#include "cli/exit_codes.h"

#include <cstdio>

#include "trainctl/base/error.h"

namespace trainctl {
namespace {

struct Row {
  ExitCode code;
  const char* meaning;
};

constexpr Row kRows[] = {
    {ExitCode::kOk, "done"},
    {ExitCode::kTrainingFailed, "training failed: it diverged, ran out of memory, or a defect"},
    {ExitCode::kUsage, "command line or config wrong"},
    {ExitCode::kEnvironment, "the machine is not fit: driver, library, GPU, NCCL, port"},
    {ExitCode::kData, "data wrong"},
    {ExitCode::kCheckpoint, "checkpoint wrong"},
    {ExitCode::kStoppedWithCheckpoint,
     "stopped on request with a complete checkpoint; run again to continue"},
};

}  // namespace

std::string exit_codes_text() {
  std::string text;
  for (const Row& row : kRows) {
    char line[128];
    std::snprintf(line, sizeof line, "  %-6d %s\n", static_cast<int>(row.code), row.meaning);
    text += line;
  }
  return text + "  128+n  ended by signal n without a checkpoint\n";
}

}  // namespace trainctl
