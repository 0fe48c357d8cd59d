// Refuses to run as one of several processes, which this version cannot join: N copies would train
// the same model into the same folder. Throws usage_error naming the variable.
#pragma once

namespace trainctl {

void refuse_many_processes();

}  // namespace trainctl
