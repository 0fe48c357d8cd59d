# shellcheck shell=bash
# The Python in .deps/venv. It holds LibTorch's wheel, the tests' packages, and build tools where the
# system has none; a build that is given all of these needs no Python.

python_is_fit() { "$1" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

# Prints a Python that LibTorch's wheel exists for: PYTHON, the active one, or a newer one beside it.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 python3.10; do
    if [[ -n $candidate ]] && command -v "$candidate" >/dev/null && python_is_fit "$candidate"; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

python_usable() { find_python >/dev/null || [[ -x $DEPS/venv/bin/python ]]; }
python_has_ensurepip() {
  [[ -x $DEPS/venv/bin/python ]] && return 0
  local python
  python=$(find_python) && "$python" -c 'import ensurepip, venv' 2>/dev/null
}

python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }
site_packages() { "$DEPS/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# Puts pip into a venv made without it: from the Python's own pip, or from Debian's package of the
# wheel, which needs no root to unpack.
bring_pip() {
  local python=$1 site wheel
  site=$(site_packages)
  if "$python" -m pip --version >/dev/null 2>&1; then
    "$python" -m pip install -q --target "$site" pip && return
  fi
  if is_debian && unpack_packages "$DEPS/pip" python3-pip-whl; then
    for wheel in "$DEPS"/pip/usr/share/python-wheels/pip-*.whl; do
      "$python" -m zipfile -e "$wheel" "$site" && return
    done
  fi
  die "$python has neither ensurepip nor pip." "install python3-venv (or pip) with the system's packages, or name another Python with PYTHON=…"
}

ensure_venv() {
  local python venv=$DEPS/venv
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 && return
  python=$(find_python) ||
    die "No Python 3.10 to 3.13 found, which LibTorch's wheel needs ($(python3 --version 2>&1 || true))." \
      "install one (on RHEL: dnf install python3.12; on a cluster: module load python) or name it with PYTHON=…; or give a LibTorch 2.11 with TORCH_ROOT."
  note "making a Python environment in .deps/venv ($("$python" --version))"
  rm -rf "$venv"
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
  else
    "$python" -m venv --without-pip "$venv"
    bring_pip "$python"
  fi
}

# missing_pins NAME==VERSION…: those the venv does not have in just that version.
missing_pins() {
  "$DEPS/venv/bin/python" - "$@" <<'PY'
import importlib.metadata, sys
for pin in sys.argv[1:]:
    name, version = pin.split("==")
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is None or found.split("+")[0] != version:
        print(pin)
PY
}

# pip_install PIN…: a progress bar on a terminal, a line per download elsewhere.
pip_install() {
  local pip=("$DEPS/venv/bin/python" -m pip install --no-deps --no-input --disable-pip-version-check)
  if [[ -t 1 ]]; then "${pip[@]}" "$@"; else
    "${pip[@]}" --progress-bar off "$@" | { grep --line-buffered -E '^ *(Downloading|Installing collected|ERROR)' || true; } |
      sed -u -E 's/^ *(Downloading [^ ]+ .*)/    \1/; s/^Installing.*/    installing (a minute or so)/'
  fi
}

# venv_provide WHAT GROUP…: the locked packages of these groups, in the venv.
venv_provide() {
  local what=$1 pins missing
  shift
  ensure_venv
  mapfile -t pins < <(lock_pins "$(python_version "$DEPS/venv/bin/python")" "$@")
  mapfile -t missing < <(missing_pins "${pins[@]}")
  if [[ ${#missing[@]} -eq 0 ]]; then
    note "$what: all there"
    return
  fi
  note "$what: installing ${#missing[@]} packages into .deps/venv"
  pip_install "${missing[@]}" ||
    die "$what could not be installed from wheels (above)." \
      "check the network and pip's settings (PIP_INDEX_URL, PIP_FIND_LINKS, proxies), then run $SCRIPT_NAME again; it goes on where it stopped."
  mapfile -t missing < <(missing_pins "${pins[@]}")
  [[ ${#missing[@]} -eq 0 ]] || die "$what: pip did not install ${missing[*]}." "remove $DEPS/venv and run $SCRIPT_NAME again."
}
