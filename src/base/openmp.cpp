#include "trainctl/base/openmp.h"

#include <cstdlib>

namespace trainctl {

void bound_spinning() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "2000", /*overwrite=*/0);
}

}  // namespace trainctl
