# shellcheck shell=bash
# Headings with times, notes and errors of the scripts.
SCRIPT_NAME=$(basename "$0")
STEP_BEGAN=
STEP_TITLE=
BOLD='' DIM='' RED='' PLAIN=''
if [[ -t 1 && ${TERM:-dumb} != dumb && -z ${NO_COLOR:-} ]]; then
  BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' PLAIN=$'\e[0m'
fi

step_done() {
  [[ -z $STEP_BEGAN ]] || printf '%s    %s: %d s%s\n' "$DIM" "$STEP_TITLE" $((SECONDS - STEP_BEGAN)) "$PLAIN"
  STEP_BEGAN=
}

step() {
  step_done
  STEP_TITLE=$1 STEP_BEGAN=$SECONDS
  printf '%s==> %s%s\n' "$BOLD" "$1" "$PLAIN"
}

note() { printf '    %s\n' "$*"; }
warn() { printf '%s: warning: %s\n' "$SCRIPT_NAME" "$*" >&2; }

# die MESSAGE [CURE]
die() {
  printf '%s%s: %s%s\n' "$RED" "$SCRIPT_NAME" "$1" "$PLAIN" >&2
  [[ $# -lt 2 ]] || printf 'What to do: %s\n' "$2" >&2
  exit 3
}

# quietly LOG COMMAND…: output into LOG, shown only where the command fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    return 1
  fi
}
