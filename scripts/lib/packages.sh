# shellcheck shell=bash
# Build tools and small libraries from Debian's or Ubuntu's packages: installed as root, unpacked into
# .deps/sysroot otherwise. What no package brings, CMake builds from pinned sources.

is_debian() { command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; }
may_install() { [[ $(id -u) -eq 0 && $USE_ROOT -eq 1 ]]; }
package_installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

library_packages() {
  echo libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libxxhash-dev
  [[ $WITH_TESTS -eq 0 ]] || echo libgtest-dev libgmock-dev
}

# What the slurm and dist tests start; without them these tests are skipped.
test_tool_packages() {
  [[ $WITH_TESTS -eq 0 ]] || echo munge slurm-client slurmctld slurmd iproute2
}

# Prints the packages of the tools and libraries that are not there.
missing_packages() {
  local package
  command -v c++ >/dev/null || echo g++
  command -v cmake >/dev/null || echo cmake
  command -v ninja >/dev/null || echo ninja-build
  command -v ccache >/dev/null || echo ccache
  command -v git >/dev/null || echo git
  python_usable || echo python3
  python_has_ensurepip || echo python3-venv
  for package in $(library_packages) $(test_tool_packages); do
    package_installed "$package" || echo "$package"
  done
}

apt_quiet() {
  DEBIAN_FRONTEND=noninteractive quietly "$DEPS/log/apt.log" \
    apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}

install_packages() {
  local missing available=() package
  mapfile -t missing < <(missing_packages)
  if [[ ${#missing[@]} -eq 0 ]]; then
    note "packages: all there"
    return
  fi
  note "reading the package lists"
  apt_quiet update -qq || warn "apt-get update failed; going on with the lists that are there"
  for package in "${missing[@]}"; do
    if apt-cache show "$package" >/dev/null 2>&1; then available+=("$package"); else
      note "$package: no such package here"
    fi
  done
  [[ ${#available[@]} -gt 0 ]] || return 0
  note "installing ${available[*]}"
  apt_quiet install -y -qq --no-install-recommends "${available[@]}" ||
    die "apt-get could not install ${available[*]} (see $DEPS/log/apt.log)." \
      "mend what it says above, or run $SCRIPT_NAME --no-root, which leaves the system alone."
}

# apt_user ARGUMENTS…: apt-get with its state in .deps, which an ordinary user can write.
apt_user() {
  local state=$DEPS/apt
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  apt-get -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" -o Debug::NoLocking=true \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

# download_packages NAME…: the .deb files of these packages and of what they need beyond what is
# installed, into the current folder.
download_packages() {
  local names
  names=$(apt-get -o Debug::NoLocking=true -s install --no-install-recommends "$@" 2>/dev/null | awk '/^Inst/ { print $2 }') || true
  # shellcheck disable=SC2086
  if [[ -n $names ]] && apt-get download $names; then return; fi
  note "reading the package lists into .deps"
  apt_user update -qq || return 1
  names=$(apt_user -s install --no-install-recommends "$@" | awk '/^Inst/ { print $2 }')
  # shellcheck disable=SC2086
  [[ -n $names ]] && apt_user download $names
}

# unpack_packages SYSROOT NAME…
unpack_packages() {
  local sysroot=$1 folder=$DEPS/debs file
  shift
  rm -rf "$folder" && mkdir -p "$folder" "$sysroot"
  (cd "$folder" && download_packages "$@") >"$DEPS/log/apt.log" 2>&1 || return 1
  for file in "$folder"/*.deb; do dpkg -x "$file" "$sysroot"; done
  rm -rf "$folder"
}

unpack_libraries() {
  local package missing=() stamp=$DEPS/sysroot/packages
  for package in $(library_packages); do
    package_installed "$package" || grep -qsx "$package" "$stamp" || missing+=("$package")
  done
  if [[ ${#missing[@]} -eq 0 ]]; then
    note "libraries: all there"
    return
  fi
  note "unpacking ${missing[*]} into .deps/sysroot"
  if unpack_packages "$DEPS/sysroot" "${missing[@]}"; then
    printf '%s\n' "${missing[@]}" >>"$stamp"
  else
    warn "packages could not be downloaded (see $DEPS/log/apt.log); CMake fetches the libraries' sources instead"
  fi
}

provide_packages() {
  if ! is_debian; then
    note "neither Debian nor Ubuntu: CMake takes the small libraries it finds, and builds the others from pinned sources"
  elif may_install; then install_packages
  else unpack_libraries; fi
}
