"""`trainctl doctor --explain` and the documentation made from the same table."""

import json
import re
import sys

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests/support")
from mini import SOURCE, TRAINCTL, trainctl  # noqa: E402
import subprocess  # noqa: E402

CUDNN = "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"


def test_troubleshooting_is_up_to_date():
    made = trainctl("doctor", "--docs").stdout
    assert (SOURCE / "docs/troubleshooting.md").read_text() == made, \
        "run: trainctl doctor --docs > docs/troubleshooting.md"


def test_troubleshooting_has_an_entry_with_cause_and_cure_for_every_name():
    made = trainctl("doctor", "--docs").stdout
    names = re.findall(r'^<a id="([^"]+)"></a>$', made, re.M)
    assert len(names) == len(set(names)) > 30
    for part in ("**Cause**", "**Cure**", "**Name**"):
        assert made.count(f"- {part}: ") == len(names), part
    # Every link of the contents leads to a chapter.
    chapters = {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")
                for title in re.findall(r"^## (.+)$", made, re.M)}
    assert set(re.findall(r"^- \[.+\]\(#(.+)\)$", made, re.M)) == chapters


def test_an_error_text_is_explained():
    done = trainctl("doctor", "--explain", CUDNN)
    assert done.returncode == 0
    for word in ("seen:  " + CUDNN, "why: ", "cure: ", "docs/troubleshooting.md#cudnn-not-initialized"):
        assert word in done.stdout


def test_a_name_is_explained():
    done = trainctl("doctor", "--explain", "nccl-shared-memory")
    assert done.returncode == 0 and "--shm-size" in done.stdout and "seen:" not in done.stdout
    assert "{" not in done.stdout and "…" not in done.stdout


def test_a_log_is_searched_and_each_cause_told_once(tmp_path):
    log = tmp_path / "run.log"
    log.write_text("step 1\n" + "[rank 1] Connection closed by peer [10.0.0.2]:4711\n" * 3 +
                   "NCCL error in: x.cpp:93, unhandled system error, NCCL version 2.28.9\n"
                   "ncclSystemError: System call\nLast error:\n"
                   "Error: failed to extend /dev/shm/nccl-Ab to 33030532 bytes\n")
    done = trainctl("doctor", "--explain", log, "--json")
    found = [entry["id"] for entry in json.loads(done.stdout)["explanations"]]
    assert found == ["gloo-peer-lost", "nccl-shared-memory"]
    piped = subprocess.run([str(TRAINCTL), "doctor", "--explain", "-"], input=log.read_bytes(), capture_output=True)
    assert piped.returncode == 0 and piped.stdout.count(b"why: ") == 2


def test_bytes_that_are_no_text_do_no_harm(tmp_path):
    log = tmp_path / "run.log"
    log.write_bytes(b"\xff\xfe CUDA out of memory \xff\n" + b"x" * 100000 + b"\n\0\n")
    done = trainctl("doctor", "--explain", log, "--json")
    assert [entry["id"] for entry in json.loads(done.stdout)["explanations"]] == ["gpu-out-of-memory"]


def test_what_is_not_known_is_said_with_exit_code_1(tmp_path):
    for text in ("my dog ate the cable", ""):
        done = trainctl("doctor", "--explain", text)
        assert done.returncode == 1 and "Nothing known" in done.stdout
    assert json.loads(trainctl("doctor", "--explain", "no", "--json").stdout) == {"explanations": []}


def test_launch_has_no_use_for_doctor_without_preflight():
    done = trainctl("launch", "--nproc", "2", "doctor")
    assert done.returncode == 2 and "--preflight" in done.stderr
