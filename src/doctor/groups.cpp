// The table of groups: order of the report.
#include "doctor/groups.h"

#include <array>
#include <string>

namespace trainctl::doctor {

std::span<const Group> groups() {
  static const std::array kGroups = {driver_group(), libraries_group(), gpus_group(),
                                     limits_group(), network_group(),   storage_group(),
                                     context_group()};
  return kGroups;
}

Finding wrong(Verdict verdict, const std::string& found, std::string_view explanation_id,
              const Facts& facts) {
  const Explanation why = explain(explanation_id, facts);
  return {verdict, found, std::string(explanation_id), why.cause, why.cure};
}

}  // namespace trainctl::doctor
