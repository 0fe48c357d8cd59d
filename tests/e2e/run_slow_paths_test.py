"""Warnings at the start about settings that are slower than the machine could be."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import SOURCE, config_with, train, trainctl  # noqa: E402
from ranks import train_ranks  # noqa: E402

SHORT = ["--set", "training.max_steps=1", "--set", "validation.max_batches=1", "--set", "backend.device=\"cpu\"",
         "--set", "training.micro_batch_size=1", "--set", "training.global_batch_size=1"]


@pytest.mark.parametrize("name", ["quickstart", "tiny_transformer"])
def test_shipped_configs_raise_no_false_alarm(tmp_path, name):
    done = trainctl("run", f"configs/{name}.json", *SHORT, "--set", f'run.output_dir="{tmp_path}"', cwd=SOURCE,
                    timeout=600)
    assert done.returncode == 0, done.stderr
    assert "slow path" not in done.stderr, done.stderr


def test_a_slow_path_is_told_once_with_its_cure_and_kept_in_the_log(tmp_path):
    slow = {"ATEN_CPU_CAPABILITY": "default"}
    done = train(tmp_path, config_with(), env=slow)
    lines = [line for line in done.stderr.splitlines() if "slow path" in line]
    assert len(lines) == 1 and "without AVX2; unset ATEN_CPU_CAPABILITY" in lines[0]
    assert lines[0].startswith("trainctl: warning: ")
    assert "slow path: LibTorch computes without AVX2" in (tmp_path / "runs/mini/logs/run.log").read_text()


def test_of_several_ranks_one_tells_it(tmp_path):
    ranks = train_ranks(tmp_path, 2, config_with(training__global_batch_size=4), ATEN_CPU_CAPABILITY="default")
    assert sum(rank.stderr.count("slow path") for rank in ranks) == 1
