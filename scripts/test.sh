#!/usr/bin/env bash
# Set-up, build and all tests; ctest's summary comes last. Arguments are handed to ctest, e.g.
#   scripts/test.sh -L unit         one label (unit, reference, e2e)
#   scripts/test.sh -R LoadConfig   tests by name
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=${TRAINCTL_DEPS_DIR:-$ROOT/.deps}
# shellcheck source=lib/ui.sh
source "$ROOT/scripts/lib/ui.sh"
# shellcheck source=lib/build.sh
source "$ROOT/scripts/lib/build.sh"

"$ROOT/scripts/setup.sh" --tests
step "Building everything (build/release)"
build_release "$ROOT/build/release" "-DTRAINCTL_TESTS=ON"
step "Testing"
step_done
exec ctest --test-dir "$ROOT/build/release" --output-on-failure --no-tests=error -j "$(nproc)" "$@"
