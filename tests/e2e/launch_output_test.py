"""What ranks print: whole lines with the rank's number, files, filters (A9), and more of it than is read."""

import os
import pathlib
import pty
import resource
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from launching import TRAINCTL, Launched, clean_environment, launch, script  # noqa: E402

LINES = """
import os, sys
rank = os.environ['RANK']
for i in range({count}):
    sys.stdout.write(f"{{rank}}:{{i}}:" + chr(97 + int(rank)) * {width} + "\\n")
"""


def test_four_ranks_lines_of_10_kb_stay_whole(tmp_path):
    path = script(tmp_path, LINES.format(count=1000, width=10000))
    done = launch("--nproc", 4, "--log-dir", "logs", path, cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.split("\n")
    assert lines.pop() == "" and len(lines) == 4000
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"[{rank}] {rank}:{i}:" + chr(97 + rank) * 10000 for i in range(1000)]
        log = (tmp_path / "logs" / "none" / "attempt_0" / str(rank) / "stdout.log").read_text()
        assert log == "".join(line[4:] + "\n" for line in own)


def test_stdout_and_stderr_stay_apart():
    done = launch("--nproc", 2, "--", "sh", "-c", "echo out; echo err >&2")
    assert sorted(done.stdout.splitlines()) == ["[0] out", "[1] out"]
    assert {"[0] err", "[1] err"} <= set(done.stderr.splitlines())


def test_both_into_one_pipe_are_never_mixed_inside_a_line(tmp_path):
    code = "import os, sys\nfor i in range(3000): os.write(1, b'o' * 3000 + b'\\n'); os.write(2, b'e' * 3000 + b'\\n')"
    done = subprocess.run([TRAINCTL, "launch", "--nproc", "2", script(tmp_path, code)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=clean_environment(), timeout=60)
    lines = done.stdout.split(b"\n")[1:-1]  # the launcher's own first
    assert len(lines) == 12000
    assert {line for line in lines} == {f"[{r}] {c * 3000}".encode() for r in (0, 1) for c in "oe"}


def test_lines_without_an_end_long_lines_and_progress_lines(tmp_path):
    code = """
import sys, time
sys.stdout.write("no newline"); sys.stderr.write("x" * 300000 + "\\n")
for i in range(200): sys.stderr.write(f"\\r{i}%"); sys.stderr.flush(); time.sleep(0.001)
sys.stderr.write("\\rdone\\r\\n")
"""
    done = launch("--nproc", 2, script(tmp_path, code))
    assert sorted(done.stdout.splitlines()) == ["[0] no newline", "[1] no newline"]
    lines = done.stderr.splitlines()
    assert "[0] " + "x" * 300000 in lines and "[1] " + "x" * 300000 in lines
    assert "[0] done" in lines and "[1] done" in lines
    assert len(lines) < 20  # of 400 progress lines few are shown
    assert "\r" not in done.stderr


def test_files_of_every_attempt_and_of_later_launches_are_kept(tmp_path):
    # No rank fails before both have printed.
    code = "import os, sys, time\n" \
           "print('out', os.environ['TORCHELASTIC_RESTART_COUNT'], flush=True); print('err', file=sys.stderr, flush=True)\n" \
           "seen = 'seen-' + os.environ['MASTER_PORT'] + '-'; open(seen + os.environ['RANK'], 'w').close()\n" \
           "while not all(os.path.exists(seen + rank) for rank in '01'): time.sleep(0.01)\n" \
           "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] == '0')"
    for _ in range(2):
        done = launch("--nproc", 2, "--max-restarts", 1, "--rdzv-id", "job/7", "--log-dir", "logs", "--",
                      sys.executable, "-c", code, cwd=tmp_path)
        assert done.returncode == 0
    for folder in ("job_7", "job_7_2"):
        files = sorted(str(p.relative_to(tmp_path / "logs" / folder)) for p in (tmp_path / "logs" / folder).rglob("*.log"))
        assert files == [f"attempt_{a}/{r}/{s}.log" for a in (0, 1) for r in (0, 1) for s in ("stderr", "stdout")]
        for attempt in (0, 1):
            assert (tmp_path / "logs" / folder / f"attempt_{attempt}/1/stdout.log").read_text() == f"out {attempt}\n"
    assert str(tmp_path / "logs" / "job_7_2") in done.stderr


def test_redirects_and_tee_as_torchrun(tmp_path):
    done = launch("--nproc", 3, "--log-dir", "logs", "-r", "1:3", "-t", "0:1", "--", "sh", "-c",
                  "echo out; echo err >&2", cwd=tmp_path)
    folder = tmp_path / "logs/none/attempt_0"
    assert sorted(done.stdout.splitlines()) == ["[0] out", "[2] out"]
    assert {line for line in done.stderr.splitlines() if "err" in line} == {"[0] err", "[2] err"}
    assert sorted(str(p.relative_to(folder)) for p in folder.rglob("*.log")) == ["0/stdout.log", "1/stderr.log", "1/stdout.log"]
    assert (folder / "1/stderr.log").read_text() == "err\n"


def test_a_failure_whose_output_went_to_a_file_shows_its_end(tmp_path):
    done = launch("--log-dir", "logs", "-r", "3", "--", "sh", "-c", "seq 1000 >&2; echo the end >&2; exit 1", cwd=tmp_path)
    assert "| the end" in done.stderr and "stderr.log" in done.stderr and "| 1000" in done.stderr


def test_the_screen_can_be_limited_to_some_ranks(tmp_path):
    done = launch("--nproc", 3, "--local-ranks-filter", "1,2", "--log-dir", "logs", "--", "sh", "-c", "echo $RANK",
                  cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == ["[1] 1", "[2] 2"]
    assert (tmp_path / "logs/none/attempt_0/0/stdout.log").read_text() == "0\n"


def test_an_unwritable_log_folder_is_refused_before_anything_starts(tmp_path):
    (tmp_path / "logs").write_text("a file")
    done = launch("--log-dir", "logs", "--", "touch", "started", cwd=tmp_path)
    assert done.returncode == 3 and "logs" in done.stderr and "--log-dir" in done.stderr
    assert not (tmp_path / "started").exists()


FLOOD = """
import os, sys, time
block = (b"x" * 99 + b"\\n") * 10000
begin = time.monotonic()
for _ in range(int(sys.argv[1])): os.write(1, block)
print("took", time.monotonic() - begin, file=sys.stderr)
"""


@pytest.mark.parametrize("files", [False, True])
def test_a_screen_that_is_not_read_holds_nobody_up(tmp_path, files):
    """300 MB into a pipe that nobody reads: the ranks go on, memory stays bounded, the files are complete."""
    log = ["--log-dir", str(tmp_path / "logs")] if files else []
    with Launched("--nproc", 2, *log, script(tmp_path, FLOOD), 150) as launched:
        peak = 0
        launched.wait_for(2)
        deadline = time.monotonic() + 60
        while launched.processes() and time.monotonic() < deadline:
            status = pathlib.Path(f"/proc/{launched.process.pid}/status").read_text()
            peak = max(peak, int(status.split("VmHWM:")[1].split()[0]))
            time.sleep(0.05)
        assert not launched.processes()  # all ranks have ended
        assert peak < 150 << 10  # kB
        out, err = launched.process.communicate(timeout=30)
        assert err.count("took") == 2
        shown = out.splitlines()
        dropped = sum(int(line.split()[2]) for line in shown if "are not shown here" in line)
        whole = sum(line[4:] == "x" * 99 for line in shown)
        assert dropped > 0 and dropped + whole == 3_000_000
        if files:
            for rank in (0, 1):
                assert (tmp_path / f"logs/none/attempt_0/{rank}/stdout.log").stat().st_size == 150_000_000


def test_a_stderr_that_nobody_reads_does_not_hang_the_launcher(tmp_path):
    code = "import os\nfor _ in range(100): os.write(2, b'y' * 99999 + b'\\n')\nos._exit(3)"
    with Launched(script(tmp_path, code)) as launched:
        begin = time.monotonic()
        assert launched.process.wait(timeout=40) == 3
        assert time.monotonic() - begin < 30


def test_a_full_disk_under_stdout_does_not_stop_the_ranks():
    with open("/dev/full", "w") as full:
        done = subprocess.run([TRAINCTL, "launch", "--nproc", "2", "--", "sh", "-c", "echo a; sleep 0.3; exit 0"],
                              stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment(), timeout=30)
    assert done.returncode == 0


def test_a_log_file_that_cannot_grow_does_not_stop_the_ranks(tmp_path):
    code = "import os\nfor _ in range(100): os.write(1, b'z' * 9999 + b'\\n')"
    command = f"ulimit -f 100; exec {TRAINCTL} launch --nproc 2 --log-dir logs {script(tmp_path, code)}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, env=clean_environment(),
                          timeout=60)
    assert done.returncode == 0 and done.stdout.count("\n") == 200
    assert done.stderr.count("cannot be written any more: File too large") == 2


def test_colours_only_on_a_terminal():
    def on_terminal(**environment):
        main, end = pty.openpty()
        process = subprocess.Popen([TRAINCTL, "launch", "--", "false"], stdin=end, stdout=end, stderr=end,
                                   env=clean_environment(TERM="xterm", **environment), start_new_session=True)
        os.close(end)
        text = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        process.wait()
        os.close(main)
        return text
    assert b"\x1b[31m" in on_terminal()
    assert b"\x1b" not in on_terminal(NO_COLOR=1)
    assert "\x1b" not in launch("--", "false").stderr


def test_standard_input_is_passed_on_unless_it_is_a_terminal():
    done = subprocess.run([TRAINCTL, "launch", "--", "cat"], input="words\n", capture_output=True, text=True,
                          env=clean_environment(), timeout=30)
    assert done.stdout == "words\n"
    main, end = pty.openpty()
    done = subprocess.run([TRAINCTL, "launch", "--", "cat"], stdin=end, capture_output=True, text=True,
                          env=clean_environment(), timeout=30)
    os.close(main)
    os.close(end)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_full_stdout_is_told_once_and_changes_nothing():
    with open("/dev/full", "w") as full:
        done = subprocess.run([TRAINCTL, "launch", "--nproc", "2", "--", "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.2; done"],
                              stdout=full, stderr=subprocess.PIPE, text=True, env=clean_environment(), timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("standard output cannot be written (No space left on device)") == 1
