"""Stopped, killed and resumed runs are bitwise the uninterrupted one (cases B3, D2, D7)."""

import pathlib
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
