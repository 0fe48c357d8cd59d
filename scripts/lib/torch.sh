# shellcheck shell=bash
# Chooses LibTorch: a given one (TORCH_ROOT, CMAKE_PREFIX_PATH), the active Python's, or the wheel.
# The choice is left in .deps/torch_root, where cmake/LibTorch.cmake finds it.

TORCH_WANTED=$(lock_version torch)

torch_version_in() {
  awk '$2 ~ /^TORCH_VERSION_(MAJOR|MINOR|PATCH)$/ { printf "%s%s", sep, $3; sep = "." }' \
    "$1/include/torch/headeronly/version.h" 2>/dev/null
}
torch_is_fit() { [[ -f $1/lib/libtorch_cpu.so && $(torch_version_in "$1") == "${TORCH_WANTED%.*}".* ]]; }
torch_has_cuda() { [[ -f $1/lib/libtorch_cuda.so ]]; }

given_torch() {
  local prefix
  if [[ -n ${TORCH_ROOT:-} ]]; then
    echo "$TORCH_ROOT"
    return 0
  fi
  while IFS= read -r -d: prefix; do
    for prefix in "$prefix" "$prefix/../.."; do
      if [[ -f $prefix/lib/libtorch_cpu.so ]]; then
        realpath "$prefix"
        return 0
      fi
    done
  done <<<"${CMAKE_PREFIX_PATH:-}:"
  return 1
}

# The torch of the active Python, found without importing it.
active_torch() {
  local python
  python=$(command -v "${PYTHON:-python3}") || return 1
  "$python" -c '
import importlib.util, os, sys
spec = importlib.util.find_spec("torch")
if spec is None or not spec.origin: sys.exit(1)
print(os.path.dirname(spec.origin))' 2>/dev/null
}

# Sets TORCH_DIR and TORCH_SOURCE (given, active, wheel) without installing anything.
choose_torch() {
  if TORCH_DIR=$(given_torch); then
    TORCH_SOURCE=given
    torch_is_fit "$TORCH_DIR" ||
      die "TORCH_ROOT or CMAKE_PREFIX_PATH names $TORCH_DIR, which is not a LibTorch ${TORCH_WANTED%.*} (found: $(torch_version_in "$TORCH_DIR" || true))." \
        "name the folder that holds include/ and lib/ of LibTorch $TORCH_WANTED, or unset the variable: the wheel is then installed."
    if [[ $WANT_CUDA -eq 1 ]] && ! torch_has_cuda "$TORCH_DIR"; then
      die "$TORCH_DIR is a LibTorch for the CPU only, but $CUDA_REASON." \
        "name a LibTorch built for CUDA, or unset TORCH_ROOT; for a build that runs on the CPU only, set TRAINCTL_CUDA=OFF."
    fi
    return
  fi
  TORCH_SOURCE=wheel
  if TORCH_DIR=$(active_torch) && [[ $TORCH_DIR != "$DEPS"/venv/* ]]; then
    if ! torch_is_fit "$TORCH_DIR"; then
      note "the active Python's torch is $(torch_version_in "$TORCH_DIR" || echo unusable), not ${TORCH_WANTED%.*}: left alone"
    elif [[ $WANT_CUDA -eq 1 ]] && ! torch_has_cuda "$TORCH_DIR"; then
      note "the active Python's torch is for the CPU only, but $CUDA_REASON: left alone"
    else
      TORCH_SOURCE=active
    fi
  fi
}

# Refuses before pip fills the disk.
need_space() {
  local need_gb=$1 free_kb
  free_kb=$(df -Pk "$DEPS" | awk 'NR == 2 { print $4 }')
  [[ $free_kb -ge $((need_gb * 1024 * 1024)) ]] ||
    die "LibTorch needs about $need_gb GB in $DEPS, but only $((free_kb / 1024 / 1024)) GB are free." \
      "free some space, or keep the checkout on another file system."
}

# The tests import torch in Python: from the chosen LibTorch where that is a Python package.
share_torch_with_venv() {
  ensure_venv
  dirname "$TORCH_DIR" >"$(site_packages)/trainctl_torch.pth"
}

provide_torch() {
  local groups=(torch)
  if [[ $TORCH_SOURCE == wheel ]]; then
    [[ $WANT_CUDA -eq 1 || $WITH_TESTS -eq 1 ]] && groups+=(cuda)
    [[ $WITH_TESTS -eq 1 ]] && groups+=(test)
    if [[ ! -d $DEPS/venv/lib ]]; then need_space $((${#groups[@]} > 1 ? 12 : 3)); fi
    venv_provide "LibTorch $TORCH_WANTED" "${groups[@]}"
    rm -f "$(site_packages)/trainctl_torch.pth"
    TORCH_DIR=$(site_packages)/torch
  elif [[ $WITH_TESTS -eq 1 && -f $TORCH_DIR/__init__.py ]]; then
    share_torch_with_venv
    venv_provide "Python packages of the tests" test
  elif [[ $WITH_TESTS -eq 1 ]]; then
    venv_provide "torch for the tests (the given LibTorch has no Python part)" torch cuda test
  fi
  note "LibTorch $(torch_version_in "$TORCH_DIR") ($TORCH_SOURCE): $TORCH_DIR"
  echo "$TORCH_DIR" >"$DEPS/torch_root"
}
