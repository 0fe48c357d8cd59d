# shellcheck shell=bash
# The same signs of an NVIDIA GPU as cmake/Gpu.cmake looks for.
gpu_visible() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null && return 0
  compgen -G '/proc/driver/nvidia/gpus/*' >/dev/null && return 0
  local smi
  smi=$(PATH=$PATH:/usr/lib/wsl/lib command -v nvidia-smi) || return 1
  timeout 30 "$smi" -L 2>/dev/null | grep -q 'GPU [0-9]'
}

# system_nvcc: prints a CUDA 13 compiler that the machine has, if any.
system_nvcc() {
  local nvcc
  for nvcc in "${CUDA_HOME:-/nonexistent}/bin/nvcc" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    if [[ -x $nvcc ]] && "$nvcc" --version 2>/dev/null | grep -q 'release 13\.'; then
      echo "$nvcc"
      return 0
    fi
  done
  return 1
}
