# shellcheck shell=bash
# Configure and build, shared by quickstart.sh, test.sh and whoever needs a built tree.

# build_release BUILD_FOLDER "CMAKE ARGUMENTS" [TARGET…]
build_release() {
  local folder=$1 settings=()
  read -r -a settings <<<"$2"
  shift 2
  [[ -d $DEPS/bin ]] && export PATH=$DEPS/bin:$PATH
  [[ -z ${TRAINCTL_CUDA:-} ]] || settings+=("-DTRAINCTL_CUDA=$TRAINCTL_CUDA")
  quietly "$DEPS/log/configure.log" cmake -S "$ROOT" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release "${settings[@]}" ||
    die "CMake could not configure the build (above)." "mend what it names, then run $SCRIPT_NAME again."
  sed -n 's/^-- \(LibTorch [0-9].*\|CUDA unit:.*\|trainctl [0-9].*\)/    \1/p' "$DEPS/log/configure.log"
  cmake --build "$folder" ${1:+--target "$@"} || die "The build failed (above)."
}
