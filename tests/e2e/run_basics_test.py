"""`trainctl run`: what a run leaves behind, running it again, and how it ends."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import (TRAINCTL, config_with, losses, metrics, param_hash, run_until_step, steps, train,  # noqa: E402
                  trainctl, write)


def test_a_run_leaves_config_metrics_weights_and_a_complete_checkpoint(tmp_path):
    done = train(tmp_path, config_with())
    run = tmp_path / "runs" / "mini"
    assert (run / "config.resolved.json").exists() and (run / "model.safetensors").exists()
    assert (run / "logs").is_dir()
    assert not (run / ".lock").exists()
    assert sorted(p.name for p in (run / "checkpoints").iterdir()) == ["step-10", "step-20"]

    lines = steps(tmp_path)
    assert [line["step"] for line in lines] == list(range(1, 21))
    for key in ("loss", "learning_rate", "grad_norm", "tokens", "tokens_per_second", "time"):
        assert all(key in line for line in lines), key
    validation = [line for line in metrics(tmp_path) if "validation_loss" in line]
    assert [line["step"] for line in validation] == [10, 20]
    assert "tok/s" in done.stdout and str(run.relative_to(tmp_path)) in done.stdout


def test_the_loss_falls(tmp_path):
    train(tmp_path, config_with(training__max_steps=150, optimizer__learning_rate=1e-2, logging__interval=1))
    curve = losses(tmp_path)
    assert sum(curve[-10:]) / 10 < 0.6 * curve[0]


def test_a_finished_run_says_so_and_exits_0(tmp_path):
    train(tmp_path, config_with())
    before = metrics(tmp_path)
    again = train(tmp_path, config_with())
    assert "finished" in again.stdout
    assert metrics(tmp_path) == before


def test_a_raised_limit_trains_on(tmp_path):
    train(tmp_path, config_with(lr_scheduler__type="constant", lr_scheduler__min_learning_rate=None))
    train(tmp_path, config_with(lr_scheduler__type="constant", lr_scheduler__min_learning_rate=None,
                                training__max_steps=25))
    assert [line["step"] for line in steps(tmp_path)] == list(range(1, 26))


def test_resume_never_moves_the_old_run_aside(tmp_path):
    first = param_hash(train(tmp_path, config_with(), "--print-param-hash"))
    second = param_hash(train(tmp_path, config_with(), "--print-param-hash", "--resume", "never"))
    assert first == second
    assert (tmp_path / "runs" / "mini.old-1" / "metrics.jsonl").exists()
    assert len(steps(tmp_path)) == 20


def test_the_resolved_config_runs_again_to_the_same_weights(tmp_path):
    first = param_hash(train(tmp_path, config_with(), "--print-param-hash"))
    again = trainctl("run", "runs/mini/config.resolved.json", "--resume", "never", "--print-param-hash", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert param_hash(again) == first


def test_interrupt_stops_after_the_step_with_a_checkpoint_and_exit_75(tmp_path):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        folder = tmp_path / number.name
        folder.mkdir()
        done = run_until_step(folder, config_with(training__max_steps=100000), 5, number)
        assert done.returncode == 75, done.stderr
        last = steps(folder)[-1]["step"]
        assert (folder / "runs" / "mini" / "checkpoints" / f"step-{last}" / "COMPLETE").exists()
        assert "continue" in done.stdout


def test_max_time_and_max_tokens_and_epochs_end_a_run(tmp_path):
    done = train(tmp_path, config_with(training__max_steps=10**9, training__max_time=0.5, logging__interval=1000),
                 expect=75)
    assert "max_time" in done.stdout
    train(tmp_path, config_with(run__name="tokens", training__max_steps=None, training__max_tokens=100))
    assert 100 <= steps(tmp_path, "tokens")[-1]["tokens"] < 116
    train(tmp_path, config_with(run__name="epochs", training__max_steps=None, training__epochs=2))
    last = [line for line in steps(tmp_path, "epochs")][-1]
    # 252 bytes and an end of text, a tenth of them for validation: whole windows, then the short one
    assert abs(last["epoch"] - 2) < 1e-9


def test_early_stopping_ends_the_run_and_stays_ended(tmp_path):
    config = config_with(training__max_steps=500, validation__interval=2, optimizer__learning_rate=0.3,
                         lr_scheduler__type="constant", lr_scheduler__min_learning_rate=None,
                         validation__early_stopping={"patience": 3, "min_delta": 0})
    done = train(tmp_path, config)
    assert "stopped early" in done.stdout
    last = steps(tmp_path)[-1]["step"]
    assert last < 500
    assert "finished" in train(tmp_path, config).stdout


def test_overfit_one_batch_drives_the_loss_to_nothing(tmp_path):
    train(tmp_path, config_with(training__overfit_one_batch=True, training__max_steps=300,
                                optimizer__learning_rate=1e-2, model__d_model=32))
    assert losses(tmp_path)[-1] < 0.1


def test_samples_are_written_while_training(tmp_path):
    done = train(tmp_path, config_with(validation__prompts=["The "], validation__sample_tokens=12))
    samples = [line for line in metrics(tmp_path) if "continuation" in line or "sample" in line]
    assert [line["step"] for line in samples] == [10, 20]
    assert "The " in done.stdout


def test_a_live_run_of_the_same_name_is_refused(tmp_path):
    write(tmp_path, config_with(training__max_steps=10**7, logging__interval=1))
    first = subprocess.Popen([str(TRAINCTL), "run", "config.json"], cwd=tmp_path, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
        path = tmp_path / "runs" / "mini" / "metrics.jsonl"
        while not (path.exists() and path.read_text()):
            assert first.poll() is None
        second = trainctl("run", "config.json", cwd=tmp_path)
        assert second.returncode == 2
        assert f"process {first.pid}" in second.stderr and "run.name" in second.stderr
        never = trainctl("run", "config.json", "--resume", "never", cwd=tmp_path)
        assert never.returncode == 2
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    # The killed run's lock is taken over: its process is gone.
    done = trainctl("run", "config.json", "--set", "training.max_steps=1", "--resume", "never", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_an_unwritable_output_folder_is_refused_before_the_first_step(tmp_path):
    (tmp_path / "runs").write_text("a file")
    done = train(tmp_path, config_with(), expect=2)
    assert "is a file" in done.stderr and "runs" in done.stderr
    done = train(tmp_path, config_with(run__output_dir="/proc/none"), expect=2)
    assert "/proc/none" in done.stderr and "run.output_dir" in done.stderr


def test_a_refused_run_leaves_nothing_behind(tmp_path):
    done = train(tmp_path, config_with(data__train=["none.txt"]), expect=4)
    assert "none.txt" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_metrics_stay_strict_json_when_the_loss_is_not_a_number(tmp_path):
    done = train(tmp_path, config_with(optimizer__learning_rate=1e9, training__max_steps=200,
                                       training__max_grad_norm=0, lr_scheduler__type="constant",
                                       lr_scheduler__min_learning_rate=None), expect=1)
    assert "diverged" in done.stderr and "learning_rate" in done.stderr
    assert metrics(tmp_path)  # each line parsed strictly


def test_output_into_a_closed_pipe_does_not_stop_training(tmp_path):
    write(tmp_path, config_with(training__max_steps=200))
    done = subprocess.run(f"'{TRAINCTL}' run config.json | head -1; exit ${{PIPESTATUS[0]}}", shell=True,
                          executable="/bin/bash", cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert steps(tmp_path)[-1]["step"] == 200


def test_generate_continues_a_prompt_the_same_way_for_the_same_seed(tmp_path):
    train(tmp_path, config_with())
    args = ["generate", "runs/mini", "--prompt", "The ", "--max-new-tokens", "20", "--seed", "3"]
    first, second = trainctl(*args, cwd=tmp_path), trainctl(*args, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout and first.stdout.startswith("The ")
    none = trainctl("generate", "runs/other", "--prompt", "x", cwd=tmp_path)
    assert none.returncode == 2 and "runs/other" in none.stderr


def test_generate_takes_the_final_weights_where_the_checkpoints_were_deleted(tmp_path):
    train(tmp_path, config_with())
    args = ["generate", "runs/mini", "--prompt", "The ", "--max-new-tokens", "20", "--seed", "3"]
    before = trainctl(*args, cwd=tmp_path)
    shutil.rmtree(tmp_path / "runs/mini/checkpoints")
    after = trainctl(*args, cwd=tmp_path)
    assert after.returncode == 0, after.stderr
    assert after.stdout == before.stdout


@pytest.mark.parametrize("changes", [{}, {"data__validation_fraction": 0}, {"data__validation": ["data.txt"]},
                                     {"training__micro_batch_size": 1, "training__global_batch_size": 4},
                                     {"training__max_steps": None, "training__epochs": 2}], ids=str)
def test_the_dry_run_foretells_the_runs_steps(tmp_path, changes):
    config = config_with(**changes)
    write(tmp_path, config)
    foretold = trainctl("run", "config.json", "--dry-run", cwd=tmp_path)
    assert foretold.returncode == 0, foretold.stderr
    done = train(tmp_path, config)
    for name, value in (("steps", r"length +(\d+) steps"), ("training windows", r"(\d+) training windows")):
        number = re.search(value, foretold.stdout).group(1)
        if name == "steps":
            assert int(number) == max(line["step"] for line in metrics(tmp_path))
        else:
            assert number in done.stdout, f"{name}: {number} is not in the run's header\n{done.stdout}"


def test_a_dry_run_checks_output_folder_and_memory(tmp_path):
    (tmp_path / "runs").write_text("a file")
    write(tmp_path, config_with())
    done = trainctl("run", "config.json", "--dry-run", cwd=tmp_path)
    assert done.returncode == 2 and "is a file" in done.stderr
    huge = trainctl("run", "config.json", "--dry-run", "--set", "model.vocab_size=2000000000", cwd=tmp_path)
    assert huge.returncode == 2 and "does not fit" in huge.stderr


def test_a_dry_run_touches_nothing_and_loads_no_engine(tmp_path):
    write(tmp_path, config_with())
    done = trainctl("run", "config.json", "--dry-run", cwd=tmp_path, env={"TRAINCTL_ENGINE": "/nonexistent"})
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "runs").exists()
    assert json.dumps(20) in done.stdout
