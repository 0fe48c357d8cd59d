"""However the launcher ends, nothing outlives it (A1), and every rank hears a signal once."""

import os
import pathlib
import pty
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from launching import MARK, TRAINCTL, Launched, clean_environment, marked, script, wait_until_gone  # noqa: E402

# A rank with a child in its process group, one in another session, and a daemon without the mark in
# its environment (its argument bears it).
FAMILY = """
import os, subprocess, sys, time
mark = os.environ["TRAINCTL_TEST_MARK"]
subprocess.Popen(["sleep", "1000"])
subprocess.Popen(["sleep", "1000"], start_new_session=True)
subprocess.Popen(["env", "-i", "sh", "-c", "setsid sh -c 'sleep 1000; : " + mark + "' & exit"])
print("ready", flush=True)
time.sleep(1000)
"""
STUBBORN = """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, lambda n, f: print("heard", n, flush=True))
print("ready", flush=True)
while True:
    time.sleep(1000)
"""


def started(launched, ranks):
    """Waits until every rank has said that it is ready."""
    for _ in range(ranks):
        assert "ready" in launched.process.stdout.readline()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL])
def test_nothing_is_left_when_the_launcher_ends(tmp_path, number):
    with Launched("--nproc", 3, "--max-restarts", 5, script(tmp_path, FAMILY)) as launched:
        started(launched, 3)
        assert len(launched.wait_for(12)) >= 12
        begin = time.monotonic()
        launched.process.send_signal(number)
        code = launched.process.wait(timeout=10)
        assert code == (-9 if number == signal.SIGKILL else 128 + number)
        assert launched.gone(2) == []
        assert time.monotonic() - begin < 15  # not the grace period of 30 s
        if number != signal.SIGKILL:
            assert "attempt 0 failed" not in launched.process.stderr.read()


def test_the_guards_death_ends_everything_too(tmp_path):
    with Launched("--nproc", 2, script(tmp_path, FAMILY)) as launched:
        started(launched, 2)
        launched.wait_for(8)
        guards = [pid for pid, command in launched.processes() if "launch-guard" in command]
        assert len(guards) == 1
        os.kill(guards[0], signal.SIGKILL)
        assert launched.process.wait(timeout=20) == 128 + 9
        assert launched.gone(1) == []


def test_a_reader_that_goes_away_ends_the_run(tmp_path):
    mark = "head" + os.urandom(8).hex()
    path = script(tmp_path, FAMILY)
    done = subprocess.run(["bash", "-c", f"'{TRAINCTL}' launch --nproc 3 '{path}' | head -1; echo code ${{PIPESTATUS[0]}}"],
                          env=clean_environment(**{MARK: mark}), capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[0].endswith("ready")
    assert done.stdout.splitlines()[1] == "code 141"
    assert wait_until_gone(lambda: marked(mark), 2) == []


def test_a_silent_run_notices_its_lost_reader_too(tmp_path):
    mark = "cat" + os.urandom(8).hex()
    begin = time.monotonic()
    subprocess.run(["bash", "-c", f"'{TRAINCTL}' launch --nproc 2 -- sleep 1000 | true"],
                   env=clean_environment(**{MARK: mark}), timeout=30)
    assert time.monotonic() - begin < 10
    assert wait_until_gone(lambda: marked(mark), 2) == []


def test_each_rank_hears_the_signal_once_and_the_second_one_kills(tmp_path):
    with Launched("--nproc", 2, script(tmp_path, STUBBORN)) as launched:
        started(launched, 2)
        launched.process.send_signal(signal.SIGINT)
        heard = [launched.process.stdout.readline() for _ in range(2)]
        assert sorted(heard) == ["[0] heard 2\n", "[1] heard 2\n"]
        time.sleep(1.3)
        assert launched.process.poll() is None  # the grace period
        launched.process.send_signal(signal.SIGINT)
        out, err = launched.process.communicate(timeout=5)
        assert launched.process.returncode == 130
        assert out == ""
        assert "ranks 0, 1 have up to 30s" in err
        assert "second SIGINT: all ranks are killed at once, without a checkpoint of this stop" in err
        assert "stopped by SIGINT; ranks 0, 1 were killed at once by a second SIGINT" in err.splitlines()[-1]
        assert launched.gone(1) == []


def test_the_grace_period_is_the_users(tmp_path):
    with Launched("--nproc", 2, "--grace-period", "0.5s", script(tmp_path, STUBBORN)) as launched:
        started(launched, 2)
        begin = time.monotonic()
        launched.process.send_signal(signal.SIGTERM)
        _, err = launched.process.communicate(timeout=10)
        assert launched.process.returncode == 143
        assert 0.4 < time.monotonic() - begin < 15
        assert "ranks 0, 1 had not ended 0.5s after SIGTERM (--grace-period) and were killed" in err
        assert "give more with --grace-period, or stop by SIGUSR1" in err
        assert "stopped by SIGTERM; ranks 0, 1 had not ended" in err.splitlines()[-1]
        assert launched.gone(1) == []


def test_a_doubled_signal_is_one():
    """As when a wrapper passes on what the terminal has sent to all."""
    code = "import time, signal; signal.signal(2, lambda n, f: (time.sleep(0.3), print('saved', flush=True), exit(75))); " \
           "print('ready', flush=True); time.sleep(100)"
    ends = []
    while len(ends) < 4 and (75, 2) not in ends:  # on a busy machine the launcher may read them too far apart
        with Launched("--nproc", 2, "--", sys.executable, "-c", code) as launched:
            started(launched, 2)
            launched.process.send_signal(signal.SIGINT)
            time.sleep(0.02)
            launched.process.send_signal(signal.SIGINT)
            out, _ = launched.process.communicate(timeout=10)
            ends.append((launched.process.returncode, out.count("saved")))
    assert (75, 2) in ends


def test_a_signal_to_every_process_of_a_job_is_a_stop_and_no_failure():
    """As Slurm sends it: a rank may end by it before the launcher has heard anything."""
    code = "import os, signal, sys, time\n" \
           "def save(*_): time.sleep(1); print('saved', flush=True); sys.exit(0)\n" \
           "if os.environ['RANK'] == '0': signal.signal(15, save)\n" \
           "print('ready', flush=True); time.sleep(1000)"
    for _ in range(3):
        with Launched("--nproc", 2, "--max-restarts", 3, "--", sys.executable, "-c", code) as launched:
            started(launched, 2)
            workers = sorted(pid for pid, _ in launched.wait_for(2))
            for pid in [*reversed(workers), launched.process.pid]:
                os.kill(pid, signal.SIGTERM)
            out, err = launched.process.communicate(timeout=20)
            assert launched.process.returncode == 143, err
            assert "saved" in out and "error" not in err


def test_such_a_signal_may_end_all_ranks_first():
    with Launched("--nproc", 2, "--", "sleep", "1000") as launched:
        for pid in [*(pid for pid, _ in launched.wait_for(2)), launched.process.pid]:
            os.kill(pid, signal.SIGTERM)
        _, err = launched.process.communicate(timeout=20)
        assert launched.process.returncode == 143
        assert "error" not in err and "stopped by SIGTERM" in err


def test_on_a_terminal_the_first_signal_is_answered_at_once():
    main, end = pty.openpty()
    with Launched("--", "sh", "-c", "trap 'exit 0' INT; echo ready; while :; do sleep 0.05; done", stderr=end) as launched:
        os.close(end)
        started(launched, 1)
        launched.process.send_signal(signal.SIGINT)
        launched.process.wait(timeout=10)
        text = os.read(main, 65536).decode()
        os.close(main)
    assert "SIGINT: passed on to the ranks; a second one kills them" in text


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_user_signals_are_passed_on_as_often_as_they_come(number):
    code = f"import signal, time; n = [0]\n" \
           f"def handle(*_):\n  n[0] += 1; print('heard', n[0], flush=True)\n  if n[0] == 3: exit(0)\n" \
           f"signal.signal({int(number)}, handle); print('ready', flush=True)\nwhile True: time.sleep(100)"
    with Launched("--nproc", 2, "--", sys.executable, "-c", code) as launched:
        started(launched, 2)
        for count in (1, 2, 3):
            launched.process.send_signal(number)
            assert {launched.process.stdout.readline() for _ in range(2)} == {f"[{r}] heard {count}\n" for r in (0, 1)}
        assert launched.process.wait(timeout=10) == 0


def test_ranks_that_stop_with_a_checkpoint_make_75():
    code = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: exit(75)); print('ready', flush=True); time.sleep(100)"
    with Launched("--nproc", 2, "--max-restarts", 3, "--", sys.executable, "-c", code) as launched:
        started(launched, 2)
        launched.process.send_signal(signal.SIGUSR1)
        _, err = launched.process.communicate(timeout=10)
        assert launched.process.returncode == 75
        assert "restart" not in err and "error" not in err
        assert "a checkpoint is complete, and the same command goes on from it" in err


def test_a_stop_request_that_ranks_follow_with_75_says_both():
    code = "import signal, time; signal.signal(15, lambda *_: exit(75)); print('ready', flush=True); time.sleep(100)"
    with Launched("--nproc", 2, "--", sys.executable, "-c", code) as launched:
        started(launched, 2)
        launched.process.send_signal(signal.SIGTERM)
        _, err = launched.process.communicate(timeout=10)
        assert launched.process.returncode == 75
        assert "stopped by SIGTERM: a checkpoint is complete, and the same command goes on from it" in err


def test_a_stop_while_the_nodes_meet_is_told():
    with Launched("--nnodes", 2, "--node-rank", 0, "--rdzv-endpoint", "localhost:29717", "--", "true") as launched:
        assert "serving it" in launched.process.stderr.readline()
        launched.process.send_signal(signal.SIGTERM)
        _, err = launched.process.communicate(timeout=10)
        assert launched.process.returncode == 143 and "stopped by SIGTERM" in err


def test_a_rank_that_does_not_follow_the_others_stop_is_ended():
    code = "import os, time; exit(75) if os.environ['RANK'] == '0' else time.sleep(1000)"
    with Launched("--nproc", 2, "--grace-period", "0.5", "--", sys.executable, "-c", code) as launched:
        assert launched.process.wait(timeout=10) == 143
        assert launched.gone(1) == []


def test_signals_before_the_ranks_are_up_are_not_lost():
    for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
        with Launched("--nproc", 4, "--", "sleep", "1000") as launched:
            time.sleep(delay)
            launched.process.send_signal(signal.SIGTERM)
            code = launched.process.wait(timeout=10)
            assert code in (143, -15)  # killed before it had set anything up
            assert launched.gone(2) == [], delay


def test_ranks_do_not_inherit_what_the_launcher_blocks_or_ignores():
    code = "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, []), " \
           "[n for n in (1, 2, 3, 10, 12, 13, 15, 17, 20, 25) if signal.getsignal(n) == signal.SIG_IGN])"
    done = subprocess.run([TRAINCTL, "launch", "--", sys.executable, "-S", "-c", code], capture_output=True, text=True,
                          env=clean_environment(), timeout=30)
    # Python itself ignores SIGPIPE and SIGXFSZ.
    assert done.stdout == "set() [13, 25]\n"


def test_stopping_the_launcher_stops_the_ranks_and_continuing_it_continues_them(tmp_path):
    code = "import time\nfor i in range(10**6): print(i, flush=True); time.sleep(0.02)"
    with Launched("--nproc", 2, "--", sys.executable, "-c", code) as launched:
        workers = launched.wait_for(2)
        launched.process.send_signal(signal.SIGTSTP)
        time.sleep(0.5)
        states = {pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid, _ in workers}
        assert states == {"T"}
        launched.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        states = {pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid, _ in workers}
        assert "T" not in states
        launched.process.send_signal(signal.SIGTERM)
        assert launched.process.wait(timeout=10) == 143


def test_what_ranks_leave_running_ends_with_them():
    with Launched("--nproc", 2, "--", "sh", "-c", "setsid sleep 1000 & echo done") as launched:
        out, err = launched.process.communicate(timeout=20)
        assert launched.process.returncode == 0 and out.count("done") == 2
        assert "left running" in err and "sleep" in err
        assert launched.gone(1) == []


def test_no_temporary_folder_stays(tmp_path):
    with Launched("--nproc", 2, "--", "sleep", "1000", TMPDIR=tmp_path) as launched:
        launched.wait_for(2)
        assert len(list(tmp_path.iterdir())) == 1
        launched.process.kill()
        launched.process.wait()
        assert launched.gone(2) == []
        assert list(tmp_path.iterdir()) == []
