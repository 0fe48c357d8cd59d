"""`trainctl doctor --preflight`, alone and on several ranks, one of which is slow or silent."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from launching import launch  # noqa: E402
from mini import TRAINCTL, trainctl  # noqa: E402
from lone_ranks import LoneRanks  # noqa: E402

STEPS = ["matmul fp32", "matmul bf16", "attention flash", "attention math", "all-reduce", "write and fsync"]
PREFLIGHT = ("doctor", "--preflight", "--device", "cpu")


def start(folder, count, *words):
    return LoneRanks(folder, count, command=lambda rank: [TRAINCTL, *PREFLIGHT, *words])


def wait_for_engine(rank, timeout=60):
    maps = pathlib.Path(f"/proc/{rank.process.pid}/maps")
    end = time.monotonic() + timeout
    while time.monotonic() < end and "libtrainctl_engine" not in maps.read_text():
        time.sleep(0.01)


def test_alone_every_step_has_a_figure(tmp_path):
    done = trainctl(*PREFLIGHT, "--output-dir", tmp_path / "runs", cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    for step in STEPS:
        assert step in done.stdout
    for unit in ("GFLOP/s", "ms", "MB/s"):
        assert re.search(rf"\d {unit}", done.stdout), done.stdout
    assert "one process: nothing to measure" in done.stdout
    assert "All steps work." in done.stdout
    assert list(tmp_path.iterdir()) == []  # nothing is left of the write


def test_launch_runs_it_on_several_ranks(tmp_path):
    done = launch("--nproc", 2, *PREFLIGHT, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 ranks at once" in done.stdout
    assert re.search(r"all-reduce +\S+ GB/s +median of 2 ranks", done.stdout), done.stdout
    assert done.stdout.count("All steps work") == 1  # rank 0 alone speaks


def test_json_holds_the_figures_of_every_rank(tmp_path):
    ranks = start(tmp_path, 2, "--json")
    assert ranks.wait(300) == [0, 0], ranks.text()
    report = json.loads(ranks[0].stdout)
    assert ranks[1].stdout == ""
    assert report["fit"] is True
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1]
    for rank in report["ranks"]:
        assert [figure["step"] for figure in rank["figures"]] == STEPS
        assert all(figure["value"] > 0 for figure in rank["figures"])
        assert rank["host"] and "cpu" in rank["device"]


def test_a_folder_that_cannot_be_written_is_a_failure(tmp_path):
    done = trainctl(*PREFLIGHT, "--output-dir", "/proc", cwd=tmp_path, timeout=300)
    assert done.returncode == 3
    assert "FAILED: '/proc': " in done.stdout and "not fit" in done.stdout


def test_a_rank_that_gets_little_time_is_named_slow(tmp_path):
    ranks = start(tmp_path, 3)
    wait_for_engine(ranks[1])
    over = threading.Event()

    def hold_back():  # four fifths of the time
        while not over.is_set() and ranks[1].process.poll() is None:
            ranks[1].send_signal(signal.SIGSTOP)
            time.sleep(0.08)
            ranks[1].send_signal(signal.SIGCONT)
            time.sleep(0.02)

    thread = threading.Thread(target=hold_back)
    thread.start()
    try:
        assert ranks.wait(300) == [0, 0, 0], ranks.text()
    finally:
        over.set()
        thread.join()
    assert re.search(r"slow: rank 1 \(\S+\) in matmul fp32: ", ranks[0].stdout), ranks.text()
    assert "cure: " in ranks[0].stdout


def test_a_silent_rank_is_named(tmp_path):
    ranks = start(tmp_path, 4, "--deadline", "15")
    wait_for_engine(ranks[3])
    time.sleep(2)
    ranks[2].send_signal(signal.SIGSTOP)
    try:
        codes = ranks.wait(300, ranks=[0, 1, 3])
    finally:
        ranks[2].send_signal(signal.SIGKILL)
        ranks.wait(10, ranks=[2])
    assert codes == [3, 3, 3], ranks.text()
    # Whichever finds it out first says it; for the others it is an echo.
    said = "".join(ranks[rank].stderr for rank in (0, 1, 3))
    assert re.search(r"rank 2\b", said), said
    assert "parallel.timeout" not in said and "training hangs" not in said


@pytest.mark.skipif(shutil.which("cc") is None, reason="this machine cannot compile")
def test_a_step_that_hangs_is_named(tmp_path):
    (tmp_path / "hang.c").write_text("#include <unistd.h>\nint fsync(int fd) { (void)fd; for (;;) pause(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "hang.so", "hang.c"], cwd=tmp_path, check=True)
    done = trainctl(*PREFLIGHT, "--deadline", "20", cwd=tmp_path, timeout=300,
                    env={"LD_PRELOAD": str(tmp_path / "hang.so")})
    assert done.returncode == 3
    assert "the preflight hangs: on rank 0 (" in done.stderr
    assert "the step 'write and fsync' has not ended after 20" in done.stderr
