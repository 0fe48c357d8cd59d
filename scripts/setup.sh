#!/usr/bin/env bash
# Brings everything trainctl is built with: takes what the machine has and adds the rest, as packages
# where it may install them, else into .deps/ of the checkout. Run again, it changes nothing and needs
# no network. docs/setup.md tells what is taken from where.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: scripts/setup.sh [--tests] [--cuda | --no-cuda] [--no-root]

  --tests     also what the tests need (GoogleTest, PyTorch's Python part, pytest and others)
  --cuda      also what the CUDA unit needs, although no GPU is seen here (as TRAINCTL_CUDA=ON)
  --no-cuda   a build for the CPU only, although a GPU is seen here (as TRAINCTL_CUDA=OFF)
  --no-root   install nothing into the system, although this is root

environment:
  TORCH_ROOT             a LibTorch 2.11 to take (the folder with include/ and lib/)
  PYTHON                 the Python to use (3.10 to 3.13)
  CXX, CUDA_HOME         the compilers to use
  TRAINCTL_FETCH_MIRROR  folder or URL with the small libraries' source archives
TEXT
}

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
DEPS=${TRAINCTL_DEPS_DIR:-$ROOT/.deps}
# shellcheck source=lib/ui.sh
source "$ROOT/scripts/lib/ui.sh"
# shellcheck source=lib/lock.sh
source "$ROOT/scripts/lib/lock.sh"
# shellcheck source=lib/gpu.sh
source "$ROOT/scripts/lib/gpu.sh"
# shellcheck source=lib/packages.sh
source "$ROOT/scripts/lib/packages.sh"
# shellcheck source=lib/python.sh
source "$ROOT/scripts/lib/python.sh"
# shellcheck source=lib/torch.sh
source "$ROOT/scripts/lib/torch.sh"
# shellcheck source=lib/tools.sh
source "$ROOT/scripts/lib/tools.sh"

WITH_TESTS=0 USE_ROOT=1 CUDA=${TRAINCTL_CUDA:-AUTO}
while [[ $# -gt 0 ]]; do
  case $1 in
    --tests) WITH_TESTS=1 ;;
    --cuda) CUDA=ON ;;
    --no-cuda) CUDA=OFF ;;
    --no-root) USE_ROOT=0 ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
  shift
done

# WANT_CUDA: LibTorch's CUDA libraries are to be there; ASKED_CUDA: the CUDA compiler too.
decide_cuda() {
  WANT_CUDA=0 ASKED_CUDA=0 CUDA_REASON=
  case $CUDA in
    ON) ASKED_CUDA=1 CUDA_REASON="the CUDA unit was asked for" ;;
    OFF) note "CUDA: off, as asked" ;;
    AUTO)
      if gpu_visible; then
        ASKED_CUDA=1 CUDA_REASON="this machine has an NVIDIA GPU"
        note "CUDA: on, $CUDA_REASON"
      else
        note "CUDA: no NVIDIA GPU seen here"
      fi ;;
    *) die "TRAINCTL_CUDA=$CUDA" "set it to AUTO, ON or OFF." ;;
  esac
  WANT_CUDA=$ASKED_CUDA
}

# Tries the compiler, finds or fetches the small libraries, and checks LibTorch's parts.
probe() {
  local folder=$DEPS/probe
  rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  quietly "$DEPS/log/probe.log" cmake -S "$ROOT/cmake/probe" -B "$folder" -G Ninja -DTRAINCTL_CUDA="$1" \
    -DTRAINCTL_TESTS="$([[ $WITH_TESTS -eq 1 ]] && echo ON || echo OFF)"
}

check_parts() {
  local wanted=OFF
  [[ $WANT_CUDA -eq 0 ]] || wanted=ON
  if [[ $wanted == ON && $TORCH_SOURCE != wheel ]] && ! probe ON 2>/dev/null; then
    # A LibTorch of the user's, whose place we do not write to: CUDA's headers go into ours.
    venv_provide "CUDA's headers" cuda
  fi
  probe "$wanted" || die "The parts do not fit together (above; all of it in $DEPS/log/probe.log)."
  sed -n 's/^-- \([A-Za-z_0-9]* [0-9.]*: \(from source\|\/.*\)\)/    \1/p' "$DEPS/log/probe.log"
}

main() {
  [[ $(uname -sm) == "Linux x86_64" ]] || die "trainctl is built for Linux on x86_64; this is $(uname -sm)." "use such a machine, or a container for it."
  mkdir -p "$DEPS/log"
  [[ ! -d $DEPS/bin ]] || export PATH=$DEPS/bin:$PATH
  step "System packages"
  decide_cuda
  provide_packages
  step "Build tools"
  provide_tools
  export PATH=$DEPS/bin:$PATH
  step "LibTorch"
  choose_torch
  provide_torch
  provide_nvcc
  step "Checking that the parts fit together"
  check_parts
  step_done
}

main
