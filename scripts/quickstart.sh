#!/usr/bin/env bash
# From a bare clone to a trained model: set-up, build, then `trainctl run configs/quickstart.json`,
# which shows samples of what the model writes and the loss curve. Arguments are handed to `trainctl
# run`, e.g.  scripts/quickstart.sh --set data.train='["my.txt"]'
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=${TRAINCTL_DEPS_DIR:-$ROOT/.deps}
# shellcheck source=lib/ui.sh
source "$ROOT/scripts/lib/ui.sh"
# shellcheck source=lib/build.sh
source "$ROOT/scripts/lib/build.sh"

"$ROOT/scripts/setup.sh"
step "Building trainctl (build/release)"
build_release "$ROOT/build/release" "" trainctl
step "Training (configs/quickstart.json)"
cd "$ROOT"
status=0
build/release/bin/trainctl run configs/quickstart.json "$@" || status=$?
step_done
case $status in
  0)
    note "From the start of this script: $SECONDS s."
    note "Train anew:       build/release/bin/trainctl run configs/quickstart.json --resume never"
    note "On your own text: build/release/bin/trainctl run configs/quickstart.json --resume never --set data.train='[\"my.txt\"]'"
    ;;
  75) note "Stopped with a complete checkpoint; run the same command again to continue." ;;
esac
exit "$status"
