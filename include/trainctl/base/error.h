// Errors come in two kinds. A UserError is something the user can put right: its message names
// what, where and the cure, and it is shown without a stack. Everything else is a defect.
#pragma once

#include <stdexcept>
#include <string>

namespace trainctl {

// Exit codes are a contract with scripts and launchers (docs/exit-codes.md); 2 to 5 and 75 are
// never restarted. A process ended by signal n exits 128 + n.
enum class ExitCode : int {
  kOk = 0,
  kTrainingFailed = 1,  // diverged, or a defect
  kUsage = 2,           // command line or config wrong
  kEnvironment = 3,     // driver, library, GPU, NCCL, port
  kData = 4,
  kCheckpoint = 5,
  kStoppedWithCheckpoint = 75,  // stopped on request; run again to continue
};

class UserError : public std::runtime_error {
 public:
  UserError(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

inline UserError usage_error(const std::string& m) { return {ExitCode::kUsage, m}; }
inline UserError environment_error(const std::string& m) { return {ExitCode::kEnvironment, m}; }
inline UserError data_error(const std::string& m) { return {ExitCode::kData, m}; }
inline UserError checkpoint_error(const std::string& m) { return {ExitCode::kCheckpoint, m}; }

}  // namespace trainctl
