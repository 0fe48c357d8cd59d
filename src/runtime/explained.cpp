#include "trainctl/runtime/explained.h"

#include <c10/util/Exception.h>

#include <system_error>

#include "trainctl/base/error.h"
#include "trainctl/base/library_error.h"

namespace trainctl {

std::string error_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return e.what();
  }
}

std::exception_ptr explained(const std::exception_ptr& error,
                             const std::optional<uint64_t>& gpu_free) {
  try {
    std::rethrow_exception(error);
  } catch (const UserError&) {
    return error;
  } catch (const std::system_error&) {
    return error;  // of the operating system's own calls: whoever made them says what for
  } catch (const std::exception&) {
    ErrorEvidence evidence = gather_error_evidence();
    evidence.gpu_free = gpu_free;
    const auto known = recognize_library_error(error_text(error), evidence);
    if (!known) return error;
    return std::make_exception_ptr(UserError(known->row->exit_code, known->message()));
  }
}

}  // namespace trainctl
