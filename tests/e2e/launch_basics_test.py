"""`trainctl launch`: what it starts, what the ranks see, exit codes, refusals before anything is started."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from launching import SOURCE, TRAINCTL, Launched, clean_environment, launch, script  # noqa: E402
from mini import config_with, write  # noqa: E402

SHOW = "import os,json; print(json.dumps({k: os.environ.get(k) for k in %r.split()}))"


def shown(done):
    return [json.loads(line[line.index("{"):]) for line in done.stdout.splitlines()]


def test_a_script_a_module_and_a_program_are_started(tmp_path):
    script(tmp_path, "import sys; print('script', sys.argv[1:], sys.stdout.write_through)")
    done = launch("worker.py", "--lr", "0.1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "script ['--lr', '0.1'] True\n"), done.stderr
    done = launch("-m", "worker", "x", cwd=tmp_path)
    assert done.stdout == "script ['x'] True\n", done.stderr
    for words in (["--", "sh", "-c", "echo $RANK"], ["--no-python", "sh", "-c", "echo $RANK"]):
        assert launch(*words).stdout == "0\n"


def test_ranks_find_torchruns_variables():
    names = ("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_WORLD_SIZE "
             "ROLE_NAME MASTER_ADDR TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID "
             "TORCHELASTIC_USE_AGENT_STORE TRAINCTL_LAUNCH")
    done = launch("--nproc", 3, "--rdzv-id", "job7", "--role", "trainer", "--max-restarts", 1, "--",
                  sys.executable, "-c", SHOW % names)
    assert done.returncode == 0, done.stderr
    ranks = sorted(shown(done), key=lambda rank: rank["RANK"])
    assert [rank["LOCAL_RANK"] for rank in ranks] == ["0", "1", "2"]
    assert ranks[1] == {
        "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "GROUP_RANK": "0",
        "GROUP_WORLD_SIZE": "1", "ROLE_RANK": "1", "ROLE_WORLD_SIZE": "3", "ROLE_NAME": "trainer",
        "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "1",
        "TORCHELASTIC_RUN_ID": "job7", "TORCHELASTIC_USE_AGENT_STORE": "False", "TRAINCTL_LAUNCH": "1"}


def test_processors_are_shared_among_ranks_and_that_is_said():
    cpus = len(os.sched_getaffinity(0))
    code = "import os; print(os.environ['OMP_NUM_THREADS'], len(os.sched_getaffinity(0)))"
    done = launch("--nproc", 2, "--", sys.executable, "-c", code)
    threads = max(1, cpus // 2)
    assert sorted(line.split("] ")[1].split()[0] for line in done.stdout.splitlines()) == [str(threads)] * 2
    assert f"{threads} thread" in done.stderr and "affinity" in done.stderr
    if cpus >= 2:
        pinned = [int(line.split()[-1]) for line in done.stdout.splitlines()]
        assert sum(pinned) == cpus and "CPUs" in done.stderr
        free = launch("--nproc", 2, "--cpu-affinity", "none", "--", sys.executable, "-c", code)
        assert [int(line.split()[-1]) for line in free.stdout.splitlines()] == [cpus] * 2
    given = launch("--nproc", 2, "--", sys.executable, "-c", code, OMP_NUM_THREADS=7)
    assert all("7 " in line for line in given.stdout.splitlines()) and "OMP_NUM_THREADS=7" in given.stderr
    slurm = launch("--nproc", 1, "--", sys.executable, "-c", code, SLURM_CPUS_PER_TASK=1)
    assert slurm.stdout.startswith("1 ")


def test_one_rank_is_passed_on_byte_by_byte(tmp_path):
    path = script(tmp_path, "import os; os.write(1, b'a\\r\\nb\\rc\\0\\xff no newline'); os.write(2, b'err')")
    import subprocess
    done = subprocess.run([TRAINCTL, "launch", path], capture_output=True, env=clean_environment(), timeout=60)
    assert done.stdout == b"a\r\nb\rc\0\xff no newline"
    assert done.stderr.endswith(b"err")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5, 7, 75, 255])
def test_the_exit_code_is_the_ranks(code):
    assert launch("--", "sh", "-c", f"exit {code}").returncode == code


def test_the_exit_code_is_128_and_the_signal_that_killed_the_rank():
    for number in (9, 11, 15):
        assert launch("--nproc", 2, "--", "sh", "-c", f"[ $RANK = 0 ] || kill -{number} $$; sleep 30",
                      timeout=20).returncode == 128 + number


def test_a_rank_that_ends_well_is_no_reason_to_stop():
    done = launch("--nproc", 2, "--", "sh", "-c", "[ $RANK = 0 ] && exit 0; sleep 0.5; echo later")
    assert (done.returncode, done.stdout) == (0, "[1] later\n")


def test_two_launches_at_once_take_different_ports():
    names = "MASTER_PORT RANK"
    with Launched("--", sys.executable, "-c", SHOW % names + "; import time; time.sleep(1)") as first:
        line = first.process.stdout.readline()
        second = shown(launch("--", sys.executable, "-c", SHOW % names))
        assert json.loads(line)["MASTER_PORT"] != second[0]["MASTER_PORT"]


def test_the_port_stays_reserved_until_the_ranks_end():
    with Launched("--", sys.executable, "-c", SHOW % "MASTER_PORT" + "; import time; time.sleep(20)") as first:
        port = json.loads(first.process.stdout.readline())["MASTER_PORT"]
        done = launch("--master-port", port, "--", "true")
        assert done.returncode == 3
        assert f"port {port} of 127.0.0.1" in done.stderr and "another trainctl launch" in done.stderr
        first.process.kill()
        first.process.wait()
        assert not first.gone()
    assert launch("--master-port", port, "--", "true").returncode == 0


def test_an_explicit_busy_port_is_refused_and_nothing_started(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = launch("--master-port", port, "--", "touch", tmp_path / "started")
    assert done.returncode == 3
    assert f"port {port} of 127.0.0.1 cannot be used" in done.stderr
    assert not (tmp_path / "started").exists()


def test_rank_0_can_listen_on_the_reserved_port():
    code = ("import os, socket; s = socket.create_server(('', int(os.environ['MASTER_PORT']))); "
            "c = socket.create_connection((os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))); print('met')")
    done = launch("--", sys.executable, "-c", code)
    assert done.stdout == "met\n", done.stderr


@pytest.mark.parametrize("words, expected", [
    ([], "launch needs what to start"),
    (["--nproc", "2"], "launch needs what to start"),
    (["--nporc", "2", "x.py"], "did you mean '--nproc'?"),
    (["--nproc", "zero", "x.py"], "--nproc is 'zero'"),
    (["--nnodes", "1:3", "x.py"], "elastic"),
    (["--nnodes", "2", "--", "true"], "--rdzv-endpoint is missing"),
    (["--start-method", "thread", "x.py"], "one of spawn, fork, forkserver"),
    ([""], "the name of what launch shall start is empty"),
    (["--n", "2", "x.py"], "--nproc, --nnodes, --node-rank, --no-python"),
    (["no-such.py"], "there is no script 'no-such.py'"),
    (["--", "no-such-program"], "is no program"),
    (["eval", "x"], "launch eval is not in this version"),
    (["no-such.json"], "'no-such.json' does not exist"),
    (["run"], "CONFIG is required"),
    (["no-such.json", "--nproc", "2"], "--nproc is a flag of launch: put it before the config"),
    (["run", "no-such.json", "--nproc_per_node=2"], "--nproc_per_node is a flag of launch"),
])
def test_wrong_command_lines_exit_2_in_one_line(tmp_path, words, expected):
    done = launch(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr and done.stderr.startswith("trainctl: error: ")
    assert done.stderr.count("\n") == 1 and done.stdout == ""


@pytest.mark.parametrize("first_line, refused", [("#!/bin/sh", True), ("#!/usr/bin/env bash", True),
                                                 ("#!/usr/bin/env python3", False)])
def test_a_script_of_another_interpreter_is_no_python_script(tmp_path, first_line, refused):
    path = script(tmp_path, first_line + "\nprint('hello')\n", name="t.run")
    path.chmod(0o755)
    done = launch("--nproc", 2, "t.run", cwd=tmp_path)
    assert ("start it with launch … -- ./t.run" in done.stderr) == refused
    assert (done.returncode, done.stdout.count("hello")) == ((2, 0) if refused else (0, 2))


def test_a_batch_that_does_not_divide_by_the_ranks_is_refused_once_before_any_starts(tmp_path):
    write(tmp_path, config_with(training__micro_batch_size=1, training__global_batch_size=4))
    for flags in (["--nproc", 3], ["--nproc", 3, "--dry-run"],
                  ["--nproc", 3, "--nnodes", 2, "--rdzv-endpoint", "localhost:29718"]):
        done = launch(*flags, "config.json", cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert "training.global_batch_size 4 is not a multiple" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_python_without_torch_is_the_likely_cause(tmp_path):
    path = script(tmp_path, "raise ModuleNotFoundError(\"No module named 'torch'\")")
    done = launch("--nproc", 1, path)
    assert done.returncode == 1 and "set PYTHON_EXEC to its Python" in done.stderr


def test_config_errors_are_found_once_before_any_rank_starts(tmp_path):
    write(tmp_path, config_with(optimizer__learning_rte=1))
    done = launch("--nproc", 4, "--max-restarts", 3, "config.json", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("learning_rte") == 1 and "ranks" not in done.stderr
    write(tmp_path, config_with())
    done = launch("--nproc", 2, "config.json", "--set", "training.max_stepz=1", cwd=tmp_path)
    assert done.returncode == 2 and "max_stepz" in done.stderr
    done = launch("--nproc", 2, "config.json", "--resum", "never", cwd=tmp_path)
    assert done.returncode == 2 and "did you mean '--resume'?" in done.stderr


def test_more_ranks_than_visible_gpus_is_refused_before_anything_starts(tmp_path):
    write(tmp_path, config_with(backend__device="cuda"))
    done = launch("--nproc", 2, "config.json", cwd=tmp_path, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3
    assert "CUDA_VISIBLE_DEVICES" in done.stderr and done.stderr.count("\n") == 1


def test_nproc_gpu_without_one_says_why():
    done = launch("--nproc", "gpu", "--", "true", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3 and "CUDA_VISIBLE_DEVICES" in done.stderr


def test_virtual_local_ranks_see_one_device_each():
    # GPUs need not be there for MIG names, which only the driver knows.
    done = launch("--nproc", 2, "--virtual-local-rank", "--", sys.executable, "-c",
                  SHOW % "RANK LOCAL_RANK CUDA_VISIBLE_DEVICES", CUDA_VISIBLE_DEVICES="MIG-1,MIG-2")
    ranks = sorted(shown(done), key=lambda rank: rank["RANK"])
    assert [(r["LOCAL_RANK"], r["CUDA_VISIBLE_DEVICES"]) for r in ranks] == [("0", "MIG-1"), ("0", "MIG-2")]


def test_what_is_waited_for_is_said_at_once():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Launched("--nnodes", 2, "--node-rank", 0, "--rdzv-endpoint", f"127.0.0.1:{port}", "--", "true") as first:
        assert f"127.0.0.1:{port}" in first.process.stderr.readline()
        first.process.terminate()
        assert first.process.wait(timeout=10) == 143


def test_torchruns_scripts_for_one_node_need_no_change():
    done = launch("--nnodes=1", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv_conf=timeout=60",
                  "--nproc_per_node=2", "--", "sh", "-c", "echo $WORLD_SIZE")
    assert sorted(done.stdout.splitlines()) == ["[0] 2", "[1] 2"], done.stderr


def test_variables_stand_in_for_flags():
    def count(**environment):
        return len(launch("--", "sh", "-c", "echo $RANK", **environment).stdout.splitlines())
    assert count(PET_NPROC_PER_NODE=2) == 2
    assert count(PET_NPROC_PER_NODE=2, TRAINCTL_NPROC=3) == 3
    assert len(launch("--nproc", 1, "--", "true", TRAINCTL_NPROC=3).stdout.splitlines()) == 0
    done = launch("--", "true", PET_NNODES="1:4")
    assert done.returncode == 2 and "PET_NNODES is '1:4'" in done.stderr


def test_dry_run_prints_environment_and_command_that_a_shell_can_run(tmp_path):
    done = launch("--nproc", 2, "--dry-run", "--master-port", 23456, "--", "sh", "-c", "echo it\\'s rank $RANK",
                  "${local_rank}")
    assert done.returncode == 0 and done.stderr == ""
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(lines) == 2
    assert "WORLD_SIZE=2" in lines[1] and "MASTER_PORT=23456" in lines[1] and lines[1].endswith(" 1")
    import subprocess
    assert subprocess.run(["sh", "-c", lines[1]], capture_output=True, text=True).stdout == "it's rank 1\n"


def test_help_lists_every_flag_and_form():
    done = launch("--help")
    assert done.returncode == 0
    for word in ("--nproc", "--rdzv-endpoint", "--max-restarts", "--grace-period", "-- PROGRAM", "CONFIG.json"):
        assert word in done.stdout
    assert max(len(line) for line in done.stdout.splitlines()) <= 110


def test_the_documentation_has_every_flag_of_the_help():
    page = (SOURCE / "docs/launch.md").read_text()
    flags = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", launch("--help").stdout, re.M))
    assert len(flags) > 20
    assert flags - set(re.findall(r"`(?:-\w, )?(--[\w-]+)", page)) == set()


def test_a_no_op_rank_takes_milliseconds():
    """Not a bench: only that nothing waits for a timer (torchrun takes seconds)."""
    times = []
    for _ in range(5):
        start = time.monotonic()
        assert launch("--nproc", 2, "--", "true").returncode == 0
        times.append(time.monotonic() - start)
    assert min(times) < 1


def test_a_terminal_or_an_own_name_is_not_needed(tmp_path):
    """Its own UTS namespace with a name that nothing resolves (A6)."""
    import subprocess
    done = subprocess.run(["unshare", "--uts", "sh", "-c",
                           f"hostname no-such-name-anywhere; exec {TRAINCTL} launch --nproc 2 -- sh -c 'echo $MASTER_ADDR'"],
                          capture_output=True, text=True, timeout=30, env=clean_environment())
    if "Operation not permitted" in done.stderr:
        pytest.skip("no right to make a UTS namespace")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] 127.0.0.1", "[1] 127.0.0.1"]
    assert "no-such-name-anywhere" in done.stderr


def test_a_torchrun_command_line_runs_with_a_note_per_flag_that_changes_nothing(tmp_path):
    path = script(tmp_path, "print('ran')")
    done = launch("--start-method", "spawn", "--rdzv-conf", "read_timeout=60", "--local-addr", "127.0.0.1", path)
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr
    assert "--start-method of torchrun changes nothing here" in done.stderr
    assert "--rdzv-conf read_timeout changes nothing" in done.stderr


def test_words_of_any_bytes_reach_the_program():
    done = subprocess.run([TRAINCTL, "launch", "--", "printf", "%s", b"\xff\xfe"], capture_output=True,
                          env=clean_environment(), timeout=30)
    assert (done.returncode, done.stdout) == (0, b"\xff\xfe"), done.stderr


def test_few_open_files_are_named_as_the_cause():
    done = subprocess.run(["sh", "-c", f"ulimit -n 4; exec '{TRAINCTL}' launch -- true"], capture_output=True, text=True,
                          env=clean_environment(), timeout=30)
    assert done.returncode == 3
    assert "Too many open files" in done.stderr and "ulimit -n" in done.stderr and "port 0" not in done.stderr
