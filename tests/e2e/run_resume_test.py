"""Stopped, killed and resumed runs are bitwise the uninterrupted one (cases B3, D2, D7)."""

import pathlib
import re
import shutil
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import config_with, losses, metrics, param_hash, run_until_step, steps, train  # noqa: E402

VARIANTS = {
    "plain": {},
    "dropout_accumulation": dict(model__dropout=0.3, training__global_batch_size=6),
    "fp16_scaled": dict(precision__dtype="fp16", model__dropout=0.1,
                        precision__grad_scaler={"init_scale": 2.0**20, "growth_interval": 3}),
    "bf16": dict(precision__dtype="bf16"),
    "sgd_momentum": dict(optimizer={"type": "sgd", "learning_rate": 0.05, "momentum": 0.9}),
    "workers": dict(data__workers=3, data__prefetch=7),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_run_stopped_by_a_signal_continues_bitwise(tmp_path, variant):
    config = config_with(training__max_steps=60, backend__deterministic=True, **VARIANTS[variant])
    gold, stopped = tmp_path / "gold", tmp_path / "stopped"
    gold.mkdir(), stopped.mkdir()
    gold_hash = param_hash(train(gold, config, "--print-param-hash"))
    done = run_until_step(stopped, config, 7)
    assert done.returncode in (0, 75)
    resumed = train(stopped, config, "--print-param-hash")
    assert param_hash(resumed) == gold_hash
    keys = ("step", "loss", "grad_norm", "learning_rate", "tokens", "loss_scale")
    assert [[line.get(k) for k in keys] for line in steps(stopped)] == [
        [line.get(k) for k in keys] for line in steps(gold)]


@pytest.mark.parametrize("stop_at", [1, 13, 14, 15, 28, 29])
def test_stopping_inside_and_at_the_end_of_an_epoch(tmp_path, stop_at):
    # An epoch of MINI has 15 steps, the last of them the short window.
    config = config_with(training__max_steps=40, checkpoint__interval=1, checkpoint__keep_latest=50)
    train(tmp_path, config)
    gold = [(line["step"], line["loss"]) for line in steps(tmp_path)]
    for path in (tmp_path / "runs/mini/checkpoints").iterdir():
        if int(path.name.split("-")[1]) > stop_at:
            shutil.rmtree(path)
    train(tmp_path, config)
    assert [(line["step"], line["loss"]) for line in steps(tmp_path)] == gold


def test_kill_9_at_random_moments_never_spoils_the_run(tmp_path):
    config = config_with(training__max_steps=80, checkpoint__interval=1, checkpoint__keep_latest=2)
    gold, torn = tmp_path / "gold", tmp_path / "torn"
    gold.mkdir(), torn.mkdir()
    gold_hash = param_hash(train(gold, config, "--print-param-hash"))
    for step in (3, 9, 14, 22, 31, 45):
        done = run_until_step(torn, config, step, signal.SIGKILL)
        assert done.returncode in (-9, 0), done.stderr
    assert param_hash(train(torn, config, "--print-param-hash")) == gold_hash
    assert losses(torn) == losses(gold)
    numbers = [line["step"] for line in steps(torn)]
    assert numbers == sorted(set(numbers))


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path):
    config = config_with(training__max_steps=30, checkpoint__interval=10)
    gold_hash = param_hash(train(tmp_path, config, "--print-param-hash"))
    weights = tmp_path / "runs/mini/checkpoints/step-30/model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-5] ^= 1
    weights.write_bytes(data)
    again = train(tmp_path, config, "--print-param-hash")
    assert "step-30" in again.stderr + again.stdout
    assert param_hash(again) == gold_hash


def test_no_good_checkpoint_is_exit_5_and_never_a_silent_restart(tmp_path):
    config = config_with()
    train(tmp_path, config)
    for path in (tmp_path / "runs/mini/checkpoints").glob("step-*/model.safetensors"):
        path.write_bytes(path.read_bytes()[:-10])
    before = metrics(tmp_path)
    done = train(tmp_path, config, expect=5)
    assert "step-20" in done.stderr and "--resume never" in done.stderr
    assert metrics(tmp_path) == before


def test_another_model_or_other_data_are_refused(tmp_path):
    train(tmp_path, config_with())
    done = train(tmp_path, config_with(model__d_ff=32, training__max_steps=30), expect=5)
    assert "model.d_ff" in done.stderr
    done = train(tmp_path, config_with(training__max_steps=30), text="something else entirely, " * 20, expect=5)
    assert "data" in done.stderr and "--resume never" in done.stderr


def test_a_changed_config_is_shown_on_resume(tmp_path):
    train(tmp_path, config_with())
    done = train(tmp_path, config_with(training__max_steps=25, optimizer__learning_rate=5e-4))
    shown = done.stdout + done.stderr
    assert "optimizer.learning_rate: 0.001" in shown and "training.max_steps: 20" in shown


def test_resume_from_a_path(tmp_path):
    config = config_with(training__max_steps=20)
    gold_hash = param_hash(train(tmp_path, config, "--print-param-hash"))
    other = config_with(training__max_steps=20, run__name="other")
    for source in ("runs/mini/checkpoints/step-10",):
        done = train(tmp_path, other, "--print-param-hash", "--resume", source)
        assert param_hash(done) == gold_hash
        assert [line["step"] for line in steps(tmp_path, "other")] == list(range(11, 21))
    done = train(tmp_path, other, "--resume", "runs/none", expect=5)
    assert "runs/none" in done.stderr


def test_another_runs_checkpoint_never_replaces_a_runs_own_past(tmp_path):
    train(tmp_path, config_with())
    train(tmp_path, config_with(run__name="other", training__max_steps=10))
    before = (tmp_path / "runs/mini/metrics.jsonl").read_bytes()
    done = train(tmp_path, config_with(training__max_steps=30), "--resume", "runs/other", expect=2)
    assert "past of its own, up to step 20" in done.stderr
    assert (tmp_path / "runs/mini/metrics.jsonl").read_bytes() == before
    fresh = train(tmp_path, config_with(run__name="fresh", training__max_steps=30), "--resume", "runs/mini")
    assert "at step 20" in fresh.stderr and steps(tmp_path, "fresh")[-1]["step"] == 30


def test_a_run_that_goes_back_moves_its_later_checkpoints_aside(tmp_path):
    train(tmp_path, config_with())
    back = config_with(training__max_steps=12, checkpoint__interval=100)
    train(tmp_path, back, "--resume", "runs/mini/checkpoints/step-10")
    names = sorted(p.name for p in (tmp_path / "runs/mini/checkpoints").iterdir())
    assert names == ["step-10", "step-12", "step-20.old-1"]
    assert steps(tmp_path)[-1]["step"] == 12


def test_a_checkpoint_at_its_end_says_so_and_leaves_nothing(tmp_path):
    train(tmp_path, config_with())
    done = train(tmp_path, config_with(run__name="new"), "--resume", "runs/mini")
    assert "nothing is left to train" in done.stdout and "max_steps" in done.stdout
    assert not (tmp_path / "runs/new").exists()


def test_a_refused_resume_leaves_no_folder(tmp_path):
    train(tmp_path, config_with())
    more = config_with(run__name="new", training__max_steps=30)
    done = train(tmp_path, more, "--resume", "runs/mini", text="other text " * 40, expect=5)
    assert "data" in done.stderr
    assert not (tmp_path / "runs/new").exists()


def test_a_stopped_run_says_how_to_continue(tmp_path):
    train(tmp_path, config_with(training__max_steps=5))
    config = config_with(run__name="next", training__max_steps=100000)
    done = run_until_step(tmp_path, config, 9, signal.SIGTERM, "next", args=["--resume", "runs/mini"])
    assert done.returncode == 75
    assert "stopped by SIGTERM; run the same command without --resume to continue" in done.stdout


def test_early_stopping_names_its_own_cure(tmp_path):
    config = config_with(optimizer__learning_rate=1e-9, validation__interval=2, lr_scheduler__min_learning_rate=0,
                         validation__early_stopping={"patience": 2, "min_delta": 0.1})
    train(tmp_path, config)
    again = train(tmp_path, config)
    assert "stopped early" in again.stdout and "patience" in again.stdout


def test_lost_weights_of_a_finished_run_are_written_again(tmp_path):
    train(tmp_path, config_with())
    weights = tmp_path / "runs/mini/model.safetensors"
    before = weights.read_bytes()
    weights.unlink()
    done = train(tmp_path, config_with())
    assert "wrote its weights again" in done.stdout
    assert weights.read_bytes() == before


def test_the_summary_speaks_of_the_last_step_and_the_log_of_everything(tmp_path):
    config = config_with(training__max_steps=100000, logging__interval=100000, lr_scheduler__type="constant")
    done = run_until_step(tmp_path, config, 1)
    first = losses(tmp_path)[0]
    last = float(re.search(r"\n  loss +([0-9.]+)", done.stdout).group(1))
    assert abs(last - first) > 1e-3
    diverging = config_with(training__max_steps=200, optimizer__learning_rate=1e30, lr_scheduler__type="constant",
                            lr_scheduler__min_learning_rate=None, checkpoint__interval=0,
                            training__max_nonfinite_steps=3)
    train(tmp_path, diverging, "--resume", "never", expect=1)
    log = (tmp_path / "runs/mini/logs/run.log").read_text()
    assert "error: training diverged" in log and "no checkpoint had been saved yet" in log


@pytest.mark.parametrize("resume", ["never", "runs/other"])
def test_a_restarted_run_continues_what_earlier_attempts_saved_whatever_resume_says(tmp_path, resume):
    train(tmp_path, config_with(run__name="other", training__max_steps=10))
    train(tmp_path, config_with())
    again = train(tmp_path, config_with(training__max_steps=30), "--resume", resume,
                  env={"TORCHELASTIC_RESTART_COUNT": "1"})
    assert "at step 20" in again.stderr and steps(tmp_path)[-1]["step"] == 30
    assert not (tmp_path / "runs/mini.old-1").exists()


@pytest.mark.parametrize("step", [5, 10])  # in the middle, and at the end
def test_a_stop_during_validation_is_quick_and_the_validation_is_made_up_for(tmp_path, step):
    config = config_with(training__max_steps=10, validation__interval=5, data__validation=["long.txt"],
                         data__validation_fraction=0, backend__deterministic=True)
    gold, stopped = tmp_path / "gold", tmp_path / "stopped"
    for folder in (gold, stopped):
        folder.mkdir()
        (folder / "long.txt").write_text("a validation that takes its time. " * 30_000)
    gold_hash = param_hash(train(gold, config, "--print-param-hash"))
    done = run_until_step(stopped, config, step, signal.SIGTERM)
    assert done.returncode == 75, done.stderr
    assert "cut short" in done.stderr
    assert not [m for m in metrics(stopped) if "validation_loss" in m and m["step"] == step]
    resumed = train(stopped, config, "--print-param-hash")
    assert param_hash(resumed) == gold_hash

    def validations(folder):
        return [(m["step"], m["validation_loss"]) for m in metrics(folder) if "validation_loss" in m]

    assert validations(stopped) == validations(gold)
    again = train(stopped, config)
    assert "is finished" in again.stdout
    assert validations(stopped) == validations(gold)
