"""One rank fails: the others end, the root cause is told once, at the end (A4); restarts."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from launching import TRAINCTL, Launched, clean_environment, launch, script  # noqa: E402

WAIT = "import os, sys, time; rank = os.environ['RANK']; print('ready', flush=True)\n"


def report(stderr):
    """The failure report, which must be the last thing on the screen and be there once."""
    assert stderr.count("trainctl: error: ") == 1, stderr
    text = stderr[stderr.index("trainctl: error: "):]
    assert "trainctl: info" not in text and "trainctl: warning" not in text
    return text


def test_a_killed_rank_is_named_with_host_signal_and_cause(tmp_path):
    with Launched("--nproc", 3, script(tmp_path, WAIT + "time.sleep(1000)")) as launched:
        workers = launched.wait_for(3)
        for _ in range(3):
            launched.process.stdout.readline()
        victim = [pid for pid, _ in workers
                  if b"RANK=1\0" in b"\0" + pathlib.Path(f"/proc/{pid}/environ").read_bytes().replace(b"LOCAL_RANK", b"")][0]
        begin = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        _, err = launched.process.communicate(timeout=20)
        assert time.monotonic() - begin < 10  # not the grace period of 30 s
        assert launched.process.returncode == 137
        text = report(err)
        assert f"rank 1 on {os.uname().nodename} was killed by SIGKILL (signal 9)" in text
        assert str(victim) in text and "killed from outside" in text and "ready" in text
        assert launched.gone(1) == []


def test_one_error_line_that_is_on_the_screen_is_not_repeated():
    program = ("--", "sh", "-c", "test $RANK = 0 || exec sleep 100; echo 'trainctl: error: no disk' >&2; exit 4")
    one_screen = subprocess.run([TRAINCTL, "launch", "--nproc", "2", *program], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=60, env=clean_environment())
    assert one_screen.returncode == 4 and one_screen.stdout.count("no disk") == 1, one_screen.stdout
    assert "one line, its error, which stands above" in one_screen.stdout
    # Two readers: neither may have seen the other's lines.
    assert launch("--nproc", 2, *program).stderr.count("no disk") == 2


def test_ranks_that_ignore_sigterm_are_killed_after_the_grace_period(tmp_path):
    code = WAIT + "import signal; signal.signal(15, signal.SIG_IGN)\nif rank == '2': time.sleep(0.5); sys.exit(9)\ntime.sleep(1000)"
    begin = time.monotonic()
    done = launch("--nproc", 3, "--grace-period", "1", script(tmp_path, code), timeout=20)
    assert done.returncode == 9 and 1.3 < time.monotonic() - begin < 15
    text = report(done.stderr)
    assert "rank 2" in text
    assert "then       ranks 0, 1 had not ended 1.0s after SIGTERM (--grace-period) and were killed" in text


def test_with_all_ranks_dead_nobody_waits_for_the_grace_period(tmp_path):
    begin = time.monotonic()
    done = launch("--nproc", 3, script(tmp_path, WAIT + "sys.exit(6)"), timeout=20)
    assert done.returncode == 6 and time.monotonic() - begin < 15


def test_the_traceback_of_the_first_failure_is_the_end_of_the_screen(tmp_path):
    code = WAIT + """
if rank == '1':
    time.sleep(0.3)
    open('/no/such/data.bin')
try:
    time.sleep(1000)
finally:
    print('the others complain', file=sys.stderr)
"""
    done = launch("--nproc", 3, script(tmp_path, code))
    assert done.returncode == 1
    text = report(done.stderr)
    assert text.startswith("trainctl: error: rank 1 on ")
    assert "No such file or directory: '/no/such/data.bin'" in text.splitlines()[-1]


def test_the_first_of_several_failures_is_the_cause(tmp_path):
    code = WAIT + "time.sleep(0.2 + 3 * (int(rank) != 2)); sys.exit(10 + int(rank))"
    done = launch("--nproc", 3, script(tmp_path, code))
    assert done.returncode == 12 and "rank 2" in report(done.stderr)


def test_a_kill_is_the_cause_of_the_errors_that_follow_at_once(tmp_path):
    """The peers' connections break in the same moment, and their exits may be seen first."""
    code = WAIT + """
import signal, socket
port = int(os.environ['MASTER_PORT'])
if rank == '2':
    server = socket.create_server(('127.0.0.1', port))
    peers = [server.accept() for _ in range(2)]
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
while True:
    try:
        peer = socket.create_connection(('127.0.0.1', port))
        break
    except OSError:
        time.sleep(0.01)
peer.recv(1)
os._exit(1)
"""
    for _ in range(5):
        done = launch("--nproc", 3, script(tmp_path, code))
        assert done.returncode == 137, done.stderr
        assert "rank 2" in report(done.stderr)


def test_an_error_file_in_torchruns_format_is_shown(tmp_path):
    code = WAIT + """
import json
json.dump({'message': {'message': 'RuntimeError: disk on fire', 'extraInfo': {'timestamp': '1'}}},
          open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w'))
sys.exit(1)
"""
    done = launch(script(tmp_path, code))
    assert "disk on fire" in report(done.stderr)


def test_out_of_memory_is_told_from_a_kill(tmp_path):
    """In a control group of its own, where this machine lets us make one."""
    group = None
    for mount, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = pathlib.Path(mount) / f"trainctl_test_{os.getpid()}"
        try:
            folder.mkdir()
            (folder / limit).write_text(str(300 << 20))
            group = folder
            break
        except OSError:
            if folder.exists():
                folder.rmdir()
    if group is None:
        pytest.skip("no right to make a memory control group")
    try:
        for name in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
            try:
                (group / name).write_text("0" if name.endswith("max") else str(300 << 20))
            except OSError:
                pass
        code = WAIT + "if rank == '1': x = [bytearray(1 << 20) for _ in range(2000)]\ntime.sleep(1000)"
        path = script(tmp_path, code)
        import subprocess
        from launching import TRAINCTL, clean_environment
        done = subprocess.run(["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec {TRAINCTL} launch --nproc 2 {path}"],
                              capture_output=True, text=True, timeout=60, env=clean_environment())
        assert done.returncode == 137, done.stderr
        text = report(done.stderr)
        assert "rank 1" in text and "OOM killer" in text and "oom_kill counter rose" in text
    finally:
        time.sleep(0.2)
        group.rmdir()


def test_restarts_start_all_ranks_again_at_a_new_port(tmp_path):
    code = WAIT + """
attempt = int(os.environ['TORCHELASTIC_RESTART_COUNT'])
print(f"attempt {attempt} port {os.environ['MASTER_PORT']} of {os.environ['TORCHELASTIC_MAX_RESTARTS']}", flush=True)
here = os.path.dirname(os.path.abspath(__file__))
open(f"{here}/seen-{attempt}-{rank}", "w").close()
while not os.path.exists(f"{here}/seen-{attempt}-0"): time.sleep(0.01)  # both have printed
if rank == '1' and attempt < 2: sys.exit(1)
if attempt < 2: time.sleep(1000)
"""
    done = launch("--nproc", 2, "--max-restarts", 3, script(tmp_path, code))
    assert done.returncode == 0, done.stderr
    for attempt in range(3):
        assert done.stdout.count(f"attempt {attempt} ") == 2
    assert len(set(re.findall(r"port (\d+)", done.stdout))) == 3
    assert done.stderr.count("failed: rank 1") == 2
    assert "restart 1 of 3" in done.stderr and "restart 2 of 3" in done.stderr and "restart 3" not in done.stderr


def test_restarts_run_out(tmp_path):
    done = launch("--nproc", 2, "--max-restarts", 2, script(tmp_path, WAIT + "sys.exit(6)"))
    assert done.returncode == 6
    # The rank that has not failed yet may be ended before it prints.
    assert 3 <= done.stdout.count("ready") <= 6
    assert "restart 2 of 2" in done.stderr
    assert "attempt 2" in report(done.stderr)


@pytest.mark.parametrize("code", [2, 3, 4, 5, 75])
def test_codes_that_would_come_again_are_not_restarted(code):
    done = launch("--nproc", 2, "--max-restarts", 3, "--", "sh", "-c", f"echo go; exit {code}")
    assert done.returncode == code and 1 <= done.stdout.count("go") <= 2


def test_a_signal_during_restarts_ends_them(tmp_path):
    with Launched("--nproc", 2, "--max-restarts", 1000, script(tmp_path, WAIT + "sys.exit(1)")) as launched:
        for _ in range(4):
            launched.process.stdout.readline()
        launched.process.send_signal(signal.SIGTERM)
        _, err = launched.process.communicate(timeout=10)
        assert launched.process.returncode == 143 and "stopped by SIGTERM" in err
        assert launched.gone(1) == []


def test_ctrl_c_while_the_others_end_hurries(tmp_path):
    code = WAIT + "import signal; signal.signal(15, signal.SIG_IGN); signal.signal(2, signal.SIG_IGN)\n" \
                  "if rank == '0': time.sleep(0.3); sys.exit(7)\ntime.sleep(1000)"
    with Launched("--nproc", 2, script(tmp_path, code)) as launched:
        for _ in range(2):
            launched.process.stdout.readline()
        time.sleep(1)
        assert launched.process.poll() is None
        launched.process.send_signal(signal.SIGINT)
        _, err = launched.process.communicate(timeout=5)
        assert launched.process.returncode == 7 and "rank 0" in report(err)


def test_a_file_that_is_no_program_says_so(tmp_path):
    path = script(tmp_path, "neither shell nor ELF", "odd")
    path.chmod(0o755)
    done = launch("--nproc", 2, "--max-restarts", 3, "--", path)
    assert done.returncode == 127
    assert "could not be started" in report(done.stderr) and "#!" in done.stderr


def test_a_rank_whose_interpreter_is_missing_says_so(tmp_path):
    path = script(tmp_path, "#!/no/such/interpreter\n", "odd")
    path.chmod(0o755)
    done = launch("--", path)
    assert done.returncode == 127 and "No such file" in report(done.stderr)


def test_an_error_file_that_is_no_file_is_passed_over():
    for make in ("mkfifo", "ln -sf /dev/zero"):
        done = launch("--nproc", 2, "--", "sh", "-c", f"rm -f $TORCHELASTIC_ERROR_FILE; {make} $TORCHELASTIC_ERROR_FILE; exit 3")
        assert done.returncode == 3


def test_a_rank_that_stops_the_guard_is_reported_all_the_same():
    done = launch("--nproc", 2, "--", "sh", "-c", "kill -STOP $PPID; exit 4")
    assert done.returncode == 4 and "exit code 4" in report(done.stderr)


def test_the_report_is_shown_however_much_output_waits():
    """One slow pipe for both streams: the ranks' lines are left out, the launcher's words are not."""
    code = "yes 0123456789012345678901234567890123456789 | head -c 60000000; exit 5"
    from launching import TRAINCTL, clean_environment
    import subprocess
    done = subprocess.run(["bash", "-c", f"{TRAINCTL} launch --nproc 2 -- sh -c '{code}' 2>&1 | (sleep 2; tail -n 40)"],
                          capture_output=True, text=True, timeout=120, env=clean_environment())
    assert "exit code 5" in done.stdout, done.stdout[-2000:]
