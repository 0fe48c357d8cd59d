# shellcheck shell=bash
# Reads scripts/versions.lock.

# lock_pins PYTHON_VERSION GROUP…: "name==version" of the groups' lines for this Python (as 3.11).
lock_pins() {
  local minor=${1#3.}
  shift
  awk -v minor="$minor" -v groups=" $* " '
    /^#/ || NF == 0 || !index(groups, " " $1 " ") { next }
    $4 == "<3.11" && minor >= 11 { next }
    $4 == ">=3.11" && minor < 11 { next }
    !seen[$2]++ { print $2 "==" $3 }' "$ROOT/scripts/versions.lock"
}

# lock_version NAME: the first locked version of NAME.
lock_version() { awk -v name="$1" '!/^#/ && $2 == name { print $3; exit }' "$ROOT/scripts/versions.lock"; }
