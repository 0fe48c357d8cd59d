"""The command line: help, unknown words, exit codes, the dry run, the engine that does not load."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BIN = Path(os.environ["TRAINCTL_BIN"]) / "trainctl"
SOURCE = Path(os.environ["TRAINCTL_SOURCE"])

GOOD = {
    "run": {"name": "mini"},
    "model": {"vocab_size": 257, "d_model": 16, "n_layers": 1, "n_heads": 2, "max_seq_len": 8},
    "data": {"train": ["data.txt"], "seq_len": 8},
    "training": {"max_steps": 20, "micro_batch_size": 2},
}


def trainctl(*arguments, cwd=None, program=BIN, **environment):
    inherited = {k: v for k, v in os.environ.items()
                 if not k.startswith(("SLURM_", "OMPI_", "PMI_")) and k != "WORLD_SIZE"}
    return subprocess.run([program, *map(str, arguments)], cwd=cwd, capture_output=True, text=True,
                          timeout=120, env={**inherited, **environment})


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(GOOD))
    (tmp_path / "data.txt").write_text("The quick brown fox jumps over the lazy dog. " * 5)
    return tmp_path


def test_help_lists_commands_and_exit_codes():
    result = trainctl("--help")
    assert result.returncode == 0
    for word in ("run", "launch", "config", "generate", "doctor"):
        assert re.search(rf"^  {word} ", result.stdout, re.M)
    for code in ("0", "1", "2", "3", "4", "5", "75", "128[+]n"):
        assert re.search(rf"^  {code} ", result.stdout, re.M)
    assert "not in this version" not in result.stdout
    assert not re.search(r"^  plan ", result.stdout, re.M)


def test_every_exit_code_is_documented():
    shown = re.findall(r"^  (\d+) ", trainctl("--help").stdout, re.M)
    documented = re.findall(r"^\| (\d+) \|", (SOURCE / "docs/exit-codes.md").read_text(), re.M)
    assert shown == documented


def test_version_names_the_build():
    assert re.fullmatch(r"trainctl \d+\.\d+\.\d+ \(build .+\)\n", trainctl("--version").stdout)


@pytest.mark.parametrize("command", ["run", "launch", "generate", "config", "doctor"])
def test_every_command_has_help(command):
    result = trainctl(command, "--help")
    assert result.returncode == 0
    assert command in result.stdout
    assert trainctl("help", command).stdout == result.stdout


@pytest.mark.parametrize("arguments, expected", [
    ([], "a command is missing"),
    (["rnu"], "unknown command 'rnu'; did you mean 'run'?"),
    (["--verison"], "did you mean 'version'?"),
    (["launch"], "launch needs what to start"),
    (["run"], "CONFIG is required"),
    (["run", "--resum", "never", "x.json"], "unknown flag '--resum'; did you mean '--resume'?"),
    (["run", "--resum=never", "x.json"], "unknown flag '--resum'; did you mean '--resume'?"),
    (["run", "no/such.json"], "'no/such.json' does not exist"),
    (["run", "a.json", "b.json"], "unexpected argument 'b.json'"),
    (["run", "a.json", "--set"], "--set"),
    (["config"], "config needs one of"),
    (["config", "shwo"], "did you mean 'show'?"),
    (["config", "show"], "CONFIG is required"),
    (["generate", "runs/x"], "--prompt is required"),
    (["generate", "runs/x", "--prompt", "a", "--max-new-tokens", "0"], "--max-new-tokens"),
    (["generate", "runs/x", "--prompt", "a", "--temperature", "-1"], "--temperature"),
    (["generate", "runs/x", "--prompt", ""], "--prompt is empty"),
])
def test_wrong_command_line_exits_2_with_the_cure(tmp_path, arguments, expected):
    result = trainctl(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == ""
    assert expected in result.stderr
    assert result.stderr.startswith("trainctl: error: ")
    assert result.stderr.count("\n") == 1


def test_errors_are_not_coloured_without_a_terminal(tmp_path):
    assert "\x1b" not in trainctl("rnu").stderr


def test_dry_run_says_what_the_run_would_do(folder):
    result = trainctl("run", "run.json", "--dry-run", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert re.search(r"parameters +.*\d", result.stdout)
    assert "20 steps" in result.stdout
    assert "runs/mini" in result.stdout
    assert not (folder / "runs").exists()


def test_dry_run_checks_the_data(folder):
    result = trainctl("run", "run.json", "--dry-run", "--set", 'data.train=["none*.txt"]',
                      cwd=folder)
    assert result.returncode == 4
    assert "none*.txt" in result.stderr
    (folder / "data.txt").write_text("abc")
    result = trainctl("run", "run.json", "--dry-run", cwd=folder)
    assert result.returncode == 4
    assert "seq_len" in result.stderr


def test_dry_run_loads_no_engine(folder):
    alone = folder / "alone"
    alone.mkdir()
    shutil.copy(BIN, alone / "trainctl")
    result = trainctl("run", "run.json", "--dry-run", cwd=folder, program=alone / "trainctl")
    assert result.returncode == 0, result.stderr


def test_missing_engine_exits_3_and_says_where_it_was_looked_for(folder):
    alone = folder / "alone"
    alone.mkdir()
    shutil.copy(BIN, alone / "trainctl")
    result = trainctl("run", "run.json", cwd=folder, program=alone / "trainctl")
    assert result.returncode == 3
    assert "libtrainctl_engine.so was not found" in result.stderr
    assert str(alone) in result.stderr
    assert "TRAINCTL_ENGINE" in result.stderr


def test_engine_variable_that_names_nothing_exits_3(folder):
    result = trainctl("run", "run.json", cwd=folder, TRAINCTL_ENGINE="/no/such")
    assert result.returncode == 3
    assert "TRAINCTL_ENGINE names '/no/such'" in result.stderr


def test_what_is_no_engine_exits_3(folder):
    (folder / "libtrainctl_engine.so").write_text("not a library")
    result = trainctl("run", "run.json", cwd=folder, TRAINCTL_ENGINE=str(folder))
    assert result.returncode == 3
    assert "cannot load" in result.stderr


@pytest.mark.parametrize("name, value", [
    ("WORLD_SIZE", "2"), ("SLURM_STEP_NUM_TASKS", "2"),
    ("OMPI_COMM_WORLD_SIZE", "2"),
])
def test_one_of_many_processes_without_its_place_is_refused(folder, name, value):
    result = trainctl("run", "run.json", cwd=folder, **{name: value})
    assert result.returncode == 2
    assert f"{name} is {value}" in result.stderr
    assert not (folder / "runs").exists()


def test_a_batch_script_of_a_larger_job_is_one_process(folder):
    result = trainctl("run", "run.json", cwd=folder, SLURM_JOB_ID="7", SLURM_NTASKS="4", TRAINCTL_ENGINE="/no/such")
    assert result.returncode == 3  # got as far as the engine


def test_values_beside_set_are_explained(folder):
    result = trainctl("run", "run.json", "--set", "training.max_steps=3", "optimizer.eps=1e-9", cwd=folder)
    assert result.returncode == 2
    assert "--set" in result.stderr


def test_one_process_of_a_larger_job_may_run(folder):
    result = trainctl("run", "run.json", cwd=folder, SLURM_NTASKS="4", SLURM_STEP_NUM_TASKS="1",
                      TRAINCTL_ENGINE="/no/such")
    assert result.returncode == 3  # got as far as the engine


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_dry_run_counts_the_ranks_and_one_of_them_speaks(folder, rank):
    result = trainctl("run", "run.json", "--dry-run", "--set", "data.seq_len=4", cwd=folder, WORLD_SIZE="2", RANK=rank,
                      LOCAL_RANK=rank, LOCAL_WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="29500")
    assert result.returncode == 0, result.stderr
    assert ("4 sequences = 2 × 1" in result.stdout) == (rank == "0"), result.stdout


def test_full_disk_is_reported_by_commands_that_print():
    with open("/dev/full", "w") as full:
        result = subprocess.run([BIN, "config", "docs"], stdout=full, stderr=subprocess.PIPE,
                                text=True, timeout=60)
    assert result.returncode == 1
    assert "No space left" in result.stderr


def test_executable_names_no_tensor_library():
    needed = subprocess.run(["ldd", BIN], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"torch|c10|cuda|nccl|cudnn", needed)


def test_a_working_directory_that_is_gone_is_named(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(["sh", "-c", f"cd {gone} && rmdir {gone} && exec {BIN} run /no/config.json"],
                          capture_output=True, text=True)
    assert done.returncode == 2 and "working directory" in done.stderr
