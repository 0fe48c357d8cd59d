"""scripts/gpu_check.sh, rehearsed on the CPU: its checks run, and it can fail."""

import os
import pathlib
import re
import subprocess

import pytest

BIN = pathlib.Path(os.environ["TRAINCTL_BIN"]).resolve()
SOURCE = pathlib.Path(os.environ["TRAINCTL_SOURCE"]).resolve()
SCRIPT = SOURCE / "scripts" / "gpu_check.sh"


def gpu_check(program, device, **env):
    return subprocess.run([str(SCRIPT)], capture_output=True, text=True, timeout=800,
                          env={**os.environ, "TRAINCTL": str(program), "GPU_CHECK_DEVICE": device, **env})


def rows(text):
    """{check: result} from the table."""
    table = text[text.index("\nresult"):]
    return {m[2].strip(): m[1] for m in re.finditer(r"^(PASS|FAIL|n/a) +(.{32}) ", table, re.M)}


def wrapper(folder, body):
    """A program that stands in for trainctl; $REAL is the true one."""
    path = folder / "trainctl"
    path.write_text(f"#!/usr/bin/env bash\nREAL={BIN}/trainctl\n{body}\n")
    path.chmod(0o755)
    return path


def test_without_a_gpu_it_says_so_and_exits_3():
    done = gpu_check(BIN / "trainctl", "cuda", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3
    assert "hides every GPU" in done.stderr
    assert "no usable GPU, so nothing was checked" in done.stderr


def test_a_program_that_is_not_built_is_named(tmp_path):
    done = gpu_check(tmp_path / "nothing", "cpu")
    assert done.returncode == 3
    assert "was not found" in done.stderr and "scripts/quickstart.sh" in done.stderr


def test_every_check_passes_in_rehearsal_and_shows_its_speed():
    done = gpu_check(BIN / "trainctl", "cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    results = rows(done.stdout)
    assert results == {
        "doctor": "PASS",
        "preflight": "PASS",
        "quickstart": "PASS",
        **{f"R8 {p}": "PASS" for p in ("fp32", "tf32", "bf16", "fp16")},
        **{f"{m} {p} = CPU fp32": "PASS" for m in ("R8", "GPT") for p in ("fp32", "tf32", "bf16", "fp16")},
        "R8 fp32 deterministic": "PASS",
        "GPT bf16 deterministic": "PASS",
        "attention flash": "PASS",
        "attention math": "PASS",
        "attention efficient": "n/a",  # not on CPU
        "attention cudnn": "n/a",
        "2 ranks = 1": "PASS",
    }
    speeds = re.findall(r"^PASS +(?:quickstart|R8 \w+) +(\d+) ", done.stdout, re.M)
    assert len(speeds) == 5 and all(int(speed) > 0 for speed in speeds)


def test_wrong_numbers_fail_the_check(tmp_path):
    # Another seed for the second deterministic run and for the fp32 side of the comparison; a crash in
    # one attention back end; a reference run without its loss scale.
    broken = wrapper(tmp_path, """
case "$*" in
  *'"R8_fp322"'*) exec "$REAL" "$@" --set run.seed=7 ;;
  *'"GPT_fp32"'*) exec "$REAL" "$@" --set run.seed=7 ;;
  *'"attention_math"'*) echo "it broke"; exit 1 ;;
  *'"r8_fp16"'*) exec "$REAL" "$@" --set precision.grad_scaler.enabled=false ;;
  *"doctor --verbose"*) echo "  FAIL NVIDIA driver  none"; exit 3 ;;
  *"doctor --preflight"*) echo "  write  FAILED: no room"; exit 3 ;;
  *) exec "$REAL" "$@" ;;
esac""")
    done = gpu_check(broken, "cpu")
    assert done.returncode == 1, done.stdout + done.stderr
    failed = {name for name, result in rows(done.stdout).items() if result == "FAIL"}
    assert failed == {"R8 fp32 deterministic", "GPT fp32 = CPU fp32", "attention math", "R8 fp16", "doctor",
                      "preflight"}
    assert "it broke" in done.stdout and "no room" in done.stdout
    assert re.search(r"6 of \d+ checks failed", done.stdout)
