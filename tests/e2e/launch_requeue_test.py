"""launch --requeue against a made-up Slurm: what is asked of it, and when."""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import trainctl  # noqa: E402


def slurm(folder, state="RUNNING", answer=0):
    """A folder for PATH with squeue and scontrol that note what they are asked."""
    programs = {"squeue": f"echo {state}", "scontrol": f'echo "$@" >> {folder}/asked; echo told; exit {answer}'}
    for name, body in programs.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "77"}


def stopped(folder, environment, code=75):
    return trainctl("launch", "--requeue", "--", "sh", "-c", f"exit {code}", cwd=folder, env=environment)


def asked(folder):
    path = folder / "asked"
    return path.read_text() if path.exists() else ""


def test_a_stop_with_a_checkpoint_requeues_the_job(tmp_path):
    done = stopped(tmp_path, slurm(tmp_path))
    assert done.returncode == 75, done.stderr
    assert asked(tmp_path) == "requeue 77\n"


@pytest.mark.parametrize("state", ["COMPLETING", "CANCELLED", "PREEMPTED"])
def test_a_job_that_slurm_ends_is_left_to_slurm(tmp_path, state):
    done = stopped(tmp_path, slurm(tmp_path, state))
    assert done.returncode == 75 and asked(tmp_path) == ""
    assert state in done.stderr


@pytest.mark.parametrize("code", [0, 1, 2])
def test_other_ends_do_not_requeue(tmp_path, code):
    assert stopped(tmp_path, slurm(tmp_path), code).returncode == code
    assert asked(tmp_path) == ""


def test_only_the_first_launcher_asks(tmp_path):
    stopped(tmp_path, {**slurm(tmp_path), "SLURM_PROCID": "1"})
    assert asked(tmp_path) == ""


def test_a_refusal_is_said_with_the_cure(tmp_path):
    done = stopped(tmp_path, slurm(tmp_path, answer=1))
    assert done.returncode == 75
    assert "told" in done.stderr and "submitted with --requeue" in done.stderr


def test_outside_of_slurm_it_is_refused(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SLURM_")}
    done = stopped(tmp_path, environment)
    assert done.returncode == 2 and "SLURM_JOB_ID" in done.stderr
