"""torchrun can start trainctl run (B1's other half): its variables, its agent's store, its restarts."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TRAINCTL, config_with, losses, steps, train, write  # noqa: E402
from launching import clean_environment, launch  # noqa: E402
from ranks import TORCHRUN, wait_for_step  # noqa: E402


def torchrun(folder, *flags, **kwargs):
    command = [TORCHRUN, "--no-python", "--nproc-per-node", "2", *flags, TRAINCTL, "run", "config.json"]
    return subprocess.Popen(list(map(str, command)), cwd=folder, env=clean_environment(OMP_NUM_THREADS=1),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)


def test_torchrun_starts_trainctl(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir(), many.mkdir()
    config = config_with(training__micro_batch_size=1, training__global_batch_size=4)
    train(one, config)
    write(many, config)
    process = torchrun(many, "--standalone")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert "2, started by torchrun" in out
    assert all(abs(a - b) < 1e-5 for a, b in zip(losses(one), losses(many)))


@pytest.mark.parametrize("change,message", [
    ({"training__max_stepz": 5}, "max_stepz"),  # refused before the engine is loaded
    ({"data__train": ["none.txt"]}, "none.txt"),  # and by the ranks together
])
def test_torchruns_report_of_a_failure_has_our_message(tmp_path, change, message):
    write(tmp_path, config_with(training__micro_batch_size=1, **change))
    process = torchrun(tmp_path, "--standalone")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    cause = out[out.index("Root Cause"):]
    assert message in cause and "error_file: /" in cause and "To enable traceback" not in cause, out


def test_our_launchers_report_has_the_message_once_and_keeps_the_file(tmp_path):
    # A launch of the config would refuse it before it starts anything.
    write(tmp_path, config_with(data__train=["none.txt"], training__micro_batch_size=1))
    done = launch("--nproc", 2, "--log-dir", "logs", "--", TRAINCTL, "run", "config.json", cwd=tmp_path)
    assert done.returncode == 4
    report = done.stderr[done.stderr.index("trainctl: error: rank "):]
    # Two streams: what stood on the one may not be seen by who reads the other.
    assert report.count("'none.txt'") == 1 and "error it recorded" not in report, done.stderr
    files = list((tmp_path / "logs").rglob("error.json"))
    assert len(files) == 1 and "none.txt" in json.loads(files[0].read_text())["message"]["message"]


class Torchrun:
    """As LaunchedRanks, so far as wait_for_step asks."""

    def __init__(self, process):
        self.process = process

    def ended(self):
        return self.process.poll() is not None

    def text(self):
        return ""


def workers(parent):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
            name = os.readlink(path / "exe")
        except OSError:
            continue
        if int(fields[1]) == parent and pathlib.Path(name).name == "trainctl":
            found.append(int(path.name))
    return sorted(found)


def test_torchrun_restarts_from_the_checkpoint(tmp_path):
    config = config_with(training__max_steps=3000, training__micro_batch_size=1, training__global_batch_size=4,
                         lr_scheduler={"type": "constant"}, checkpoint__interval=20, validation__interval=0)
    write(tmp_path, config)
    process = torchrun(tmp_path, "--max-restarts", "1", "--master-port", "0", "--rdzv-backend", "c10d",
                       "--rdzv-endpoint", "localhost:0")
    wait_for_step(tmp_path, 45, Torchrun(process))
    os.kill(workers(process.pid)[-1], signal.SIGKILL)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    assert "restart 1" in out and "resuming from" in out
    assert [line["step"] for line in steps(tmp_path)] == list(range(1, 3001))


def test_a_stop_of_torchrun_stops_all_with_a_checkpoint(tmp_path):
    config = config_with(training__max_steps=1000000, training__micro_batch_size=1, training__global_batch_size=4,
                         lr_scheduler={"type": "constant"}, checkpoint__interval=0, validation__interval=0)
    write(tmp_path, config)
    process = torchrun(tmp_path, "--standalone")
    wait_for_step(tmp_path, 5, Torchrun(process))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    deadline = time.monotonic() + 10
    while (tmp_path / "runs/mini/.lock").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list((tmp_path / "runs/mini/checkpoints").glob("step-*/COMPLETE"))
