#!/usr/bin/env bash
# Checks trainctl on one NVIDIA GPU in under five minutes and prints a table: pass or fail, with tokens/s.
#   scripts/gpu_check.sh [--keep]        --keep leaves runs and logs, and says where
# Runs the quickstart; the reference TinyTransformer in fp32, TF32, bf16 and fp16 with loss scaling;
# the same losses on CPU and GPU; deterministic runs twice; each attention back end; one rank per GPU over
# NCCL where there are several. doctor has to find the machine fit and name its GPU, and its preflight to run
# every step.
# Exit code: 0 all passed, 1 something failed, 3 no usable GPU (the reason is printed).
#
# TRAINCTL names the program (default: build/release/bin/trainctl). GPU_CHECK_DEVICE=cpu rehearses every
# check on the CPU with tiny models, so that this script itself can be tested without a GPU.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=lib/ui.sh
source "$ROOT/scripts/lib/ui.sh"

TRAINCTL=${TRAINCTL:-$ROOT/build/release/bin/trainctl}
DEVICE=${GPU_CHECK_DEVICE:-cuda}
CASE_LIMIT=${GPU_CHECK_CASE_SECONDS:-120}
KEEP=no
case ${1:-} in
  '') ;;
  --keep) KEEP=yes ;;
  *)
    echo "usage: scripts/gpu_check.sh [--keep]" >&2
    exit 2
    ;;
esac
WORK=$(mktemp -d "${TMPDIR:-/tmp}/trainctl-gpu-check.XXXXXX")
[[ $KEEP == yes ]] || trap 'rm -rf "$WORK"' EXIT

ROWS=()      # "RESULT|name|tokens/s|detail"
FAILED=0
R8=configs/tiny_transformer.json
QUICKSTART=configs/quickstart.json
QUICKSTART_STEPS=300 R8_STEPS=100 PARITY_STEPS=20
R8_SMALL=(--set training.micro_batch_size=4)  # what the CPU's side of the comparison can do in seconds
REHEARSAL=()
R8_REHEARSAL=()
if [[ $DEVICE == cpu ]]; then
  QUICKSTART_STEPS=40 R8_STEPS=12 PARITY_STEPS=6
  REHEARSAL=(--set model.d_model=32 --set model.n_layers=1 --set data.seq_len=16 --set model.n_heads=2
    --set model.d_ff=64 --set training.micro_batch_size=4 --set validation.max_batches=2
    --set backend.threads=1)
  R8_REHEARSAL=("${REHEARSAL[@]}" --set model.vocab_size=300 --set model.max_seq_len=16)
fi

STARTER=("$TRAINCTL" run)  # what starts a case
# run_case NAME DEVICE CONFIG [ARGUMENT…]: trains into $WORK/NAME with $WORK/NAME.log; the program's code.
run_case() {
  local name=$1 device=$2 config=$3 code=0
  shift 3
  timeout --kill-after=10 "$CASE_LIMIT" "${STARTER[@]}" "$config" --set "run.output_dir=\"$WORK\"" \
    --set "run.name=\"$name\"" --set "backend.device=\"$device\"" --set logging.interval=1 \
    --set logging.progress='"none"' "$@" >"$WORK/$name.log" 2>&1 || code=$?
  [[ $code -ne 124 && $code -ne 137 ]] || echo "stopped after the limit of $CASE_LIMIT s" >>"$WORK/$name.log"
  return "$code"
}

# values NAME KEY: one line per metrics line that has KEY as a number.
values() {
  sed -n "s/.*[{,]\"$2\":\([-+0-9.eE]*\)[,}].*/\1/p" "$WORK/$1/metrics.jsonl" 2>/dev/null || true
}

# Median of the later half: start-up, warm-up of kernels and algorithms are in the first.
speed() {
  values "$1" tokens_per_second | awk '{v[NR] = $1} END {if (NR) {
    n = 0; for (i = int(NR / 2) + 1; i <= NR; i++) w[++n] = v[i]
    for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (w[j] < w[i]) {t = w[i]; w[i] = w[j]; w[j] = t}
    printf "%.0f", w[int((n + 1) / 2)]}}'
}

# row RESULT NAME SPEED DETAIL
row() {
  ROWS+=("$1|$2|$3|$4")
  [[ $1 != FAIL ]] || FAILED=$((FAILED + 1))
  printf '    %-4s %s%s\n' "$1" "$2" "${4:+: $4}"
}

# why NAME: what a case's log says went wrong, for the table.
why() {
  { grep -E 'trainctl: error: ' "$WORK/$1.log" || tail -n 1 "$WORK/$1.log"; } 2>/dev/null |
    tail -n 1 | cut -c1-200
}

# Both runs logged the same number of losses, none differing by more than the factor TOLERANCE. Prints the
# largest difference.
compare_losses() {
  paste -d' ' <(values "$1" loss) <(values "$2" loss) | awk -v tolerance="$3" -v want="$4" '
    NF != 2 {bad = 1}
    {d = $1 - $2; d = (d < 0 ? -d : d) / ($1 > 0 ? $1 : 1); if (d > most) most = d}
    END {printf "largest relative difference %.1e over %d losses (allowed %s)", most, NR, tolerance
         exit bad || NR != want || most > tolerance}'
}

check_quickstart() {
  local first last
  if ! run_case quickstart "$DEVICE" "$QUICKSTART" --set training.max_steps=$QUICKSTART_STEPS \
    "${REHEARSAL[@]}"; then
    row FAIL quickstart "" "$(why quickstart)"
    return
  fi
  first=$(values quickstart loss | head -n 1)
  last=$(values quickstart loss | tail -n 1)
  local result=FAIL
  awk -v a="$first" -v b="$last" 'BEGIN {exit !(b > 0 && b < 0.9 * a)}' && result=PASS
  row $result quickstart "$(speed quickstart)" "loss $first to $last in $QUICKSTART_STEPS steps"
}

# check_r8 NAME ARGUMENT…: the reference model in one precision; every loss finite and no step skipped
# for good.
check_r8() {
  local name=$1 count scale
  shift
  if ! run_case "r8_$name" "$DEVICE" $R8 --set training.max_steps=$R8_STEPS "${R8_REHEARSAL[@]}" "$@"; then
    row FAIL "R8 $name" "" "$(why "r8_$name")"
    return
  fi
  count=$(values "r8_$name" loss | wc -l)
  scale=$(values "r8_$name" loss_scale | tail -n 1)
  local result=PASS detail
  detail="loss $(values "r8_$name" loss | tail -n 1)${scale:+, loss scale $scale}"
  [[ $count -eq $R8_STEPS ]] || result=FAIL detail="$count of $R8_STEPS losses are finite"
  [[ $name != fp16 || -n $scale ]] || result=FAIL detail="no loss scale was logged"
  row $result "R8 $name" "$(speed "r8_$name")" "$detail"
}

# The CPU's losses in fp32 are the yardstick for each precision on the GPU.
check_parity() {
  local model=$1 config=$2 name tolerance settings detail result
  shift 2
  local common=(--set "training.max_steps=$PARITY_STEPS" --set model.dropout=0 "$@")
  if ! run_case "${model}_cpu" cpu "$config" "${common[@]}"; then
    row FAIL "$model on CPU" "" "$(why "${model}_cpu")"
    return
  fi
  while read -r name tolerance settings; do
    # shellcheck disable=SC2086  # the settings are words without blanks
    if ! run_case "${model}_$name" "$DEVICE" "$config" "${common[@]}" $settings; then
      row FAIL "$model $name = CPU fp32" "" "$(why "${model}_$name")"
      continue
    fi
    result=PASS
    detail=$(compare_losses "${model}_cpu" "${model}_$name" "$tolerance" "$PARITY_STEPS") || result=FAIL
    row $result "$model $name = CPU fp32" "" "$detail"
  done <<'PRECISIONS'
fp32 1e-4
tf32 2e-3 --set precision.float32_matmul_precision="high"
bf16 2e-2 --set precision.dtype="bf16"
fp16 5e-3 --set precision.dtype="fp16"
PRECISIONS
}

check_deterministic() {
  local model=$1 config=$2 dtype=$3 turn hash=() result=FAIL
  shift 3
  for turn in 1 2; do
    if ! run_case "${model}_$dtype$turn" "$DEVICE" "$config" --print-param-hash \
      --set "training.max_steps=$PARITY_STEPS" --set model.dropout=0.1 --set backend.deterministic=true \
      --set "precision.dtype=\"$dtype\"" "$@"; then
      row FAIL "$model $dtype deterministic" "" "$(why "${model}_$dtype$turn")"
      return
    fi
    hash+=("$(sed -n 's/^param_hash //p' "$WORK/${model}_$dtype$turn.log")")
  done
  [[ -n ${hash[0]} && ${hash[0]} == "${hash[1]}" ]] && result=PASS
  row $result "$model $dtype deterministic" "" "parameters ${hash[0]:-none} and ${hash[1]:-none}"
}

# A back end that this GPU or model cannot use is refused with code 2: not a failure.
check_attention() {
  local kernel=$1 code=0
  run_case "attention_$kernel" "$DEVICE" "$QUICKSTART" --set "training.max_steps=$PARITY_STEPS" \
    --set "backend.attention=\"$kernel\"" --set 'precision.dtype="bf16"' "${REHEARSAL[@]}" || code=$?
  case $code in
    0) row PASS "attention $kernel" "$(speed "attention_$kernel")" "bf16" ;;
    2) row n/a "attention $kernel" "" "$(why "attention_$kernel")" ;;
    *) row FAIL "attention $kernel" "" "$(why "attention_$kernel")" ;;
  esac
}

# Fit, and the GPU's name as the driver gives it.
check_doctor() {
  local code=0 name
  timeout --kill-after=10 "$CASE_LIMIT" "$TRAINCTL" doctor --verbose --device "$DEVICE" --output-dir "$WORK" \
    >"$WORK/doctor.log" 2>&1 || code=$?
  if [[ $code -ne 0 ]]; then
    row FAIL doctor "" "exit code $code: $(grep -m 1 FAIL "$WORK/doctor.log" || why doctor)"
    return
  fi
  name=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 || true)
  if [[ $DEVICE != cpu && -n $name ]] && ! grep -qF "$name" "$WORK/doctor.log"; then
    row FAIL doctor "" "it does not name $name"
    return
  fi
  row PASS doctor "" "$(tail -n 1 "$WORK/doctor.log")"
}

# Every step of the preflight has a figure; kernels that this GPU does not have are told with the reason.
check_preflight() {
  local code=0
  timeout --kill-after=10 "$CASE_LIMIT" "$TRAINCTL" doctor --preflight --device "$DEVICE" --output-dir "$WORK" \
    >"$WORK/preflight.log" 2>&1 || code=$?
  if [[ $code -ne 0 ]]; then
    row FAIL preflight "" "exit code $code: $(grep -m 1 FAILED "$WORK/preflight.log" || why preflight)"
    return
  fi
  row PASS preflight "" "$(sed -n 's/^ *matmul bf16 *\([0-9.]* [A-Z]*FLOP\/s\).*/bf16 products \1/p' "$WORK/preflight.log")"
  sed 's/^/    /' "$WORK/preflight.log"
}

# As many ranks as there are GPUs, against one rank with the same global batch.
check_ranks() {
  local ranks result=PASS detail
  ranks=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU' || true)
  [[ $DEVICE != cpu ]] || ranks=2
  if [[ $ranks -lt 2 ]]; then
    row n/a "ranks over NCCL" "" "one GPU is visible, NCCL needs one per rank"
    return
  fi
  local common=(--set "training.max_steps=$PARITY_STEPS" --set model.dropout=0 "${REHEARSAL[@]}"
    --set training.micro_batch_size=1 --set "training.global_batch_size=$((2 * ranks))")
  if ! run_case one_rank "$DEVICE" "$QUICKSTART" "${common[@]}"; then
    row FAIL "$ranks ranks = 1" "" "$(why one_rank)"
    return
  fi
  STARTER=("$TRAINCTL" launch --nproc "$ranks" run)
  if ! run_case ranks "$DEVICE" "$QUICKSTART" "${common[@]}" --set parallel.self_test=true; then
    row FAIL "$ranks ranks = 1" "" "$(why ranks)"
    return
  fi
  detail=$(compare_losses one_rank ranks 1e-4 "$PARITY_STEPS") || result=FAIL
  row $result "$ranks ranks = 1" "$(speed ranks)" "$detail"
}

print_table() {
  local entry result name speed detail
  printf '\n%-6s %-32s %12s  %s\n' result check tokens/s detail
  for entry in "${ROWS[@]}"; do
    IFS='|' read -r result name speed detail <<<"$entry"
    printf '%-6s %-32s %12s  %s\n' "$result" "$name" "${speed:--}" "$detail"
  done
}

cd "$ROOT"
[[ -x $TRAINCTL ]] || die "$TRAINCTL was not found." "build it: scripts/quickstart.sh; or name it in TRAINCTL"
step "Looking for the GPU"
code=0
run_case device "$DEVICE" "$R8" --set training.max_steps=1 "${R8_REHEARSAL[@]}" || code=$?
if [[ $code -eq 3 ]]; then
  cat "$WORK/device.log" >&2
  echo "gpu_check: no usable GPU, so nothing was checked" >&2
  exit 3
elif [[ $code -ne 0 ]]; then
  cat "$WORK/device.log" >&2
  die "a first training step failed with exit code $code (above)"
fi
grep -E '^ *(device|GPU|GPU memory|driver|libraries|processor|attention)  ' "$WORK/device.log" || true

step "Doctor"
check_doctor
check_preflight
step "Quickstart"
check_quickstart
step "Reference TinyTransformer (R8)"
check_r8 fp32
check_r8 tf32 --set 'precision.float32_matmul_precision="high"'
check_r8 bf16 --set 'precision.dtype="bf16"'
check_r8 fp16 --set 'precision.dtype="fp16"'
step "Losses against the CPU"
check_parity R8 $R8 "${R8_SMALL[@]}" "${R8_REHEARSAL[@]}"
check_parity GPT $QUICKSTART "${REHEARSAL[@]}"
step "Deterministic repeats"
check_deterministic R8 $R8 fp32 "${R8_REHEARSAL[@]}"
check_deterministic GPT $QUICKSTART bf16 "${REHEARSAL[@]}"
step "Attention back ends"
for kernel in flash efficient cudnn math; do check_attention $kernel; done
step "Several ranks"
check_ranks
step_done

print_table
[[ $KEEP == no ]] || note "runs and logs: $WORK"
if [[ $FAILED -gt 0 ]]; then
  printf '\n%s of %s checks failed after %s s\n' "$FAILED" "${#ROWS[@]}" "$SECONDS"
  exit 1
fi
printf '\nall %s checks passed in %s s\n' "${#ROWS[@]}" "$SECONDS"
