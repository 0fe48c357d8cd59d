# shellcheck shell=bash
# Compiler, CMake, Ninja and the CUDA compiler.

version_at_least() { [[ $(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# How to get the compiler where we may not install it.
compiler_cure() {
  if is_debian; then echo "apt-get install g++ as root"
  elif command -v dnf >/dev/null; then echo "dnf install gcc-c++ (RHEL 8: gcc-toolset-12) as root"
  elif command -v zypper >/dev/null; then echo "zypper install gcc12-c++ as root"
  else echo "install g++ 11 or newer"; fi
  echo "; on a cluster: module load gcc; then name it with CXX=… if it is not c++ in PATH."
}

need_compiler() {
  local compiler=${CXX:-c++} version
  command -v "$compiler" >/dev/null || die "No C++ compiler found ($compiler)." "$(compiler_cure | tr -d '\n')"
  version=$("$compiler" -dumpfullversion 2>/dev/null || "$compiler" -dumpversion)
  if "$compiler" --version | grep -qi 'free software foundation' && ! version_at_least "$version" 11; then
    die "$compiler is version $version; trainctl is C++20 and needs g++ 11 or newer." "$(compiler_cure | tr -d '\n')"
  fi
  note "compiler: $("$compiler" --version | head -n 1)"
}

# link_tool NAME…: makes a tool of the venv found before the system's, without the venv's Python.
link_tool() {
  local tool
  mkdir -p "$DEPS/bin"
  for tool in "$@"; do ln -sf "../venv/bin/$tool" "$DEPS/bin/$tool"; done
}

provide_tools() {
  local version
  need_compiler
  version=$(cmake --version 2>/dev/null | awk 'NR == 1 { print $3 }')
  if [[ -z $version ]] || ! version_at_least "$version" 3.25; then
    note "cmake: ${version:-none} here, 3.25 or newer is needed"
    ensure_venv
    venv_provide_one cmake
    link_tool cmake ctest
  fi
  if ! command -v ninja >/dev/null; then
    ensure_venv
    venv_provide_one ninja
    link_tool ninja
  fi
  note "$(cmake --version | head -n 1), ninja $(ninja --version), ccache $(ccache --version 2>/dev/null | awk 'NR == 1 { print $3 }' | grep . || echo absent)"
}

venv_provide_one() {
  local pin missing
  pin=$1==$(lock_version "$1")
  mapfile -t missing < <(missing_pins "$pin")
  [[ ${#missing[@]} -eq 0 ]] || pip_install "$pin" ||
    die "$1 could not be installed from its wheel." "install $1 with the system's packages, or check the network and pip's settings."
}

provide_nvcc() {
  local nvcc
  if nvcc=$(system_nvcc); then
    note "CUDA compiler: $nvcc"
  elif [[ $ASKED_CUDA -eq 1 ]]; then
    venv_provide "CUDA compiler" nvcc
    note "CUDA compiler: $(site_packages)/nvidia/cu13/bin/nvcc"
  else
    note "CUDA compiler: none (needed only for a GPU build; --cuda brings it)"
  fi
}
