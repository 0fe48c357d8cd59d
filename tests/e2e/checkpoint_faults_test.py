"""Saves that fail: full disks, quotas, limits, read-only and broken file systems. Training goes on, earlier
checkpoints stay as they are, the message names path and reason, and a last save that fails is exit code 5."""

import os
import pathlib
import resource
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from faults import Running, checkpoints, contents, faulty, leftovers, saved_steps, synchronous  # noqa: E402
from mini import TRAINCTL, losses, param_hash, train, trainctl, write  # noqa: E402

ERRORS = {"EIO": "Input/output error", "ENOSPC": "No space left on device", "EDQUOT": "Disk quota exceeded",
          "EROFS": "Read-only file system"}
CALLS = ["open", "write", "fsync", "close", "rename", "mkdir"]
CASES = [(call, error) for call in CALLS for error in (ERRORS if call == "write" else ["EIO"])]
CAN_MOUNT = subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
needs_mounts = pytest.mark.skipif(not CAN_MOUNT, reason="this machine cannot make a mount namespace (needs root)")


@pytest.fixture(scope="module")
def gold(tmp_path_factory):
    """Parameter hash and losses of 20 steps without any fault."""
    folder = tmp_path_factory.mktemp("gold")
    done = train(folder, synchronous(checkpoint__interval=5), "--print-param-hash")
    return param_hash(done), losses(folder)


def of_step(step, call):
    """Paths of that step's save. A folder that cannot be opened cannot be removed either."""
    return f"*/checkpoints/step-{step}*" + ("/*" if call == "open" else "")


def one_error(done):
    assert done.stderr.count("trainctl: error:") == 1 and "defect" not in done.stderr, done.stderr
    return [line for line in done.stderr.splitlines() if "error:" in line][0]


@pytest.mark.parametrize("call,error", CASES)
def test_one_save_fails_and_training_goes_on(tmp_path, gold, call, error):
    done = train(tmp_path, synchronous(checkpoint__interval=5), "--print-param-hash",
                 env=faulty(of_step(10, call), f"{call}:{error}:0"))
    assert param_hash(done) == gold[0] and losses(tmp_path) == gold[1]
    assert saved_steps(tmp_path) == [5, 15, 20] and leftovers(tmp_path) == []
    warnings = [line for line in done.stderr.splitlines() if "warning:" in line and "step-10" in line]
    assert len(warnings) == 1, done.stderr
    assert ERRORS[error] in warnings[0] and "next interval" in warnings[0]


@pytest.mark.parametrize("call,error", CASES)
def test_the_last_save_fails_and_the_exit_code_says_so(tmp_path, gold, call, error):
    config = synchronous(checkpoint__interval=5)
    done = train(tmp_path, config, expect=5, env=faulty(of_step(20, call), f"{call}:{error}:0"))
    message = one_error(done)
    assert ERRORS[error] in message and "step-20" in message
    assert saved_steps(tmp_path) == [5, 10, 15] and leftovers(tmp_path) == []
    again = train(tmp_path, config, "--print-param-hash")
    assert "at step 15" in again.stderr and param_hash(again) == gold[0] and losses(tmp_path) == gold[1]


@pytest.mark.parametrize("call", ["write", "fsync", "rename"])
@pytest.mark.parametrize("skip", [1, 3, 6])
def test_a_failure_in_the_midst_of_a_save_leaves_the_others_as_they_were(tmp_path, call, skip):
    config = synchronous(training__max_steps=15, checkpoint__interval=5)
    train(tmp_path, config)
    before = contents(checkpoints(tmp_path))
    more = synchronous(training__max_steps=20, checkpoint__interval=0)
    done = trainctl_run(tmp_path, more, faulty("*/checkpoints/step-20*", f"{call}:EIO:{skip}"))
    if done.returncode == 0:
        pytest.skip(f"a save has fewer than {skip + 1} calls of {call}")
    assert done.returncode == 5 and "Input/output error" in one_error(done)
    assert contents(checkpoints(tmp_path)) == before


def trainctl_run(folder, config, environment):
    write(folder, config)
    return trainctl("run", "config.json", cwd=folder, env=environment)


LONG = dict(training__max_steps=1000000, lr_scheduler={"type": "constant"}, validation__interval=0,
            checkpoint__interval=200, checkpoint__keep_latest=1000000, logging__interval=1000)


def test_a_file_size_limit_that_comes_and_goes(tmp_path):
    with Running(tmp_path, synchronous(**LONG)) as run:
        run.wait_until(lambda: saved_steps(tmp_path))
        resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        run.wait_until(lambda: "not saved" in run.said())
        resource.prlimit(run.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        newest = saved_steps(tmp_path)[-1]
        run.wait_until(lambda: saved_steps(tmp_path)[-1] > newest)
        run.process.send_signal(signal.SIGTERM)
        assert run.ends() == 75
        assert "File too large" in run.said() and "checkpoints/step-" in run.said()
    assert leftovers(tmp_path) == []


def in_namespace(mounts, folder):
    """The command line that makes the mounts where no one else sees them, and then runs."""
    script = f'{mounts} && exec "$0" run config.json'
    return ["unshare", "-m", "bash", "-c", script, str(TRAINCTL)]


def inside(run, command):
    """A command in the run's own mount namespace."""
    # The folder by its name in there: nsenter's --wd may still be the one outside.
    script = f"cd {run.folder} && {command}"
    subprocess.run(["nsenter", "-t", str(run.process.pid), "-m", "bash", "-c", script], check=True)


def listed(run, folder="small/mini/checkpoints"):
    """Steps with a marker, as the run's own namespace has them."""
    root = pathlib.Path(f"/proc/{run.process.pid}/root{run.folder}/{folder}")
    return sorted(int(p.parent.name[5:]) for p in root.glob("step-*/COMPLETE") if p.parent.name[5:].isdigit())


@needs_mounts
def test_a_disk_that_fills_up_and_is_emptied_again(tmp_path):
    (tmp_path / "small").mkdir()
    config = synchronous(run__output_dir="small", **{**LONG, "checkpoint__keep_latest": 2})
    with Running(tmp_path, config, in_namespace("mount -t tmpfs -o size=8m none small", tmp_path)) as run:
        run.wait_until(lambda: listed(run))
        inside(run, "head -c 64M /dev/zero > small/filler 2>/dev/null || true")
        run.wait_until(lambda: "not saved" in run.said())
        assert "No space left on device" in run.said() and listed(run)
        newest = listed(run)[-1]
        inside(run, "rm small/filler")
        run.wait_until(lambda: listed(run)[-1] > newest)
        inside(run, "head -c 64M /dev/zero > small/filler 2>/dev/null || true")
        run.process.send_signal(signal.SIGTERM)
        assert run.ends() == 5
        assert run.said().count("trainctl: error:") == 1 and "defect" not in run.said()


@needs_mounts
def test_a_file_system_that_turns_read_only(tmp_path):
    (tmp_path / "runs/mini/checkpoints").mkdir(parents=True)
    folder = "runs/mini/checkpoints"
    with Running(tmp_path, synchronous(**LONG), in_namespace(f"mount --bind {folder} {folder}", tmp_path)) as run:
        run.wait_until(lambda: saved_steps(tmp_path))
        freeze = f"until mount -o remount,bind,ro {folder} 2>/dev/null; do sleep 0.002; done"
        inside(run, freeze)
        run.wait_until(lambda: "not saved" in run.said())
        assert "Read-only file system" in run.said()
        before, newest = contents(checkpoints(tmp_path)), saved_steps(tmp_path)[-1]
        inside(run, f"mount -o remount,bind,rw {folder}")
        run.wait_until(lambda: saved_steps(tmp_path)[-1] > newest)
        after = contents(checkpoints(tmp_path))
        assert {name: after[name] for name in before if f"step-{newest}/" in name} == {
            name: value for name, value in before.items() if f"step-{newest}/" in name}
        inside(run, freeze)
        run.process.send_signal(signal.SIGTERM)
        assert run.ends() == 5
        assert run.said().count("trainctl: error:") == 1


def test_a_stale_handle_is_tried_again(tmp_path):
    config = synchronous(checkpoint__interval=5)
    train(tmp_path, config)
    more = synchronous(checkpoint__interval=5, training__max_steps=25)
    done = train(tmp_path, more, env=faulty("*/step-20/*", "open:ESTALE:0:1"))
    assert "at step 20" in done.stderr and "passed over" not in done.stderr


def test_a_handle_that_stays_stale_is_named(tmp_path):
    train(tmp_path, synchronous(checkpoint__interval=5))
    more = synchronous(checkpoint__interval=5, training__max_steps=25)
    done = train(tmp_path, more, env=faulty("*/step-20/*", "open:ESTALE:0"))
    assert "Stale file handle" in done.stderr and "at step 15" in done.stderr


def test_a_slow_disk_is_no_error(tmp_path):
    done = train(tmp_path, synchronous(checkpoint__interval=10, training__max_steps=10),
                 env=faulty("*/checkpoints/*", "fsync:delay50:0"))
    assert saved_steps(tmp_path) == [10] and "error" not in done.stderr
