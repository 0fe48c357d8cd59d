#include "base/explain_chapters.h"

namespace trainctl {

std::span<const ExplanationRow> doctor_explanations() {
  static const ExplanationRow kRows[] = {
      {"no-answer",
       "A probe of the doctor got no answer",
       {},
       "what the machine says about {group} could not be gathered: {why}",
       "look at what hangs or crashes there by hand: a dead network file system, a driver that "
       "blocks, a damaged library; trainctl doctor --json shows what the other groups say",
       "the doctor asks each group in a process of its own with a deadline"},
  };
  return kRows;
}

}  // namespace trainctl
