"""Saving while training: what is kept, what a failing or slow save does, and kills inside saves (cases D3, D7)."""

import json
import pathlib
import random
import resource
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TRAINCTL, config_with, losses, metrics, param_hash, steps, train, write  # noqa: E402


def checkpoints(folder, name="mini"):
    return sorted((p.name for p in (pathlib.Path(folder) / "runs" / name / "checkpoints").iterdir()),
                  key=lambda n: (len(n), n))


def saved(folder):
    return [line for line in metrics(folder) if "checkpoint_step" in line]


def small_files_only(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_a_checkpoint_holds_the_state_of_its_step_though_training_went_on(tmp_path):
    config = config_with(training__max_steps=30, checkpoint__interval=1, checkpoint__keep_latest=50,
                         model__dropout=0.2, backend__deterministic=True)
    gold_hash = param_hash(train(tmp_path, config, "--print-param-hash"))
    names = checkpoints(tmp_path)
    assert names[-1] == "step-30" and len(names) > 1
    for source in [names[0], names[len(names) // 2], names[-2]]:
        other = {**config, "run": {**config["run"], "name": "from-" + source}}
        done = train(tmp_path, other, "--print-param-hash", "--resume", f"runs/mini/checkpoints/{source}")
        assert param_hash(done) == gold_hash, source


def test_every_save_leaves_a_line_of_metrics(tmp_path):
    train(tmp_path, config_with(checkpoint__interval=5, validation__interval=100))
    numbers = [line["checkpoint_step"] for line in saved(tmp_path)]
    assert len(numbers) >= 2 and numbers == sorted(set(numbers)) and numbers[0] >= 5 and numbers[-1] == 20
    for line in saved(tmp_path):
        assert line["step"] >= line["checkpoint_step"] and line["checkpoint_bytes"] > 10000
        assert 0 <= line["checkpoint_stall_seconds"] and line["checkpoint_seconds"] > 0
    numbers = [line["step"] for line in metrics(tmp_path)]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("asynchronous", [True, False])
def test_saves_stand_at_the_steps_of_the_interval(tmp_path, asynchronous):
    train(tmp_path, config_with(training__max_steps=12, checkpoint__interval=1, checkpoint__keep_latest=2,
                                checkpoint__async=asynchronous))
    # On a disk that is slow for a moment, an asynchronous save may be put off.
    assert checkpoints(tmp_path) == ["step-11", "step-12"] or (asynchronous and checkpoints(tmp_path)[-1] == "step-12")
    done = train(tmp_path, config_with(training__max_steps=102, checkpoint__interval=1, checkpoint__keep_latest=2,
                                       checkpoint__async=asynchronous))
    assert len(checkpoints(tmp_path)) == 2 and checkpoints(tmp_path)[-1] == "step-102", done.stderr
    assert asynchronous or checkpoints(tmp_path)[0] == "step-101"


def test_keep_every_and_keep_best(tmp_path):
    train(tmp_path, config_with(training__max_steps=40, checkpoint__interval=5, checkpoint__keep_latest=1,
                                checkpoint__keep_every=10, checkpoint__async=False))
    assert checkpoints(tmp_path) == ["step-10", "step-20", "step-30", "step-40"]
    config = config_with(run__name="best", training__max_steps=40, checkpoint__interval=0,
                         checkpoint__keep_latest=1, checkpoint__keep_best=2, validation__interval=4,
                         optimizer__learning_rate=0.02)
    train(tmp_path, config)
    measured = {line["step"]: line["validation_loss"] for line in metrics(tmp_path, "best")
                if "validation_loss" in line}
    # An improvement is saved at once; those that were none are not on disk to be kept.
    improvements, lowest = [], float("inf")
    for step, loss in measured.items():
        if loss < lowest:
            improvements.append(step)
            lowest = loss
    on_disk = {*improvements, 40}
    best = sorted(on_disk, key=lambda step: measured[step])[:2]
    assert checkpoints(tmp_path, "best") == [f"step-{step}" for step in sorted({*best, 40})]
    for step in best:
        manifest = json.loads((tmp_path / f"runs/best/checkpoints/step-{step}/manifest.json").read_text())
        assert manifest["validation_loss"] == measured[step]


def test_a_stale_later_checkpoint_is_neither_counted_nor_removed(tmp_path):
    config = config_with(training__max_steps=12, checkpoint__interval=1, checkpoint__keep_latest=2,
                         checkpoint__async=False)
    write(tmp_path, config)
    stale = tmp_path / "runs/mini/checkpoints/step-5000"
    stale.mkdir(parents=True)
    (stale / "COMPLETE").write_text("0" * 16 + "\n")
    done = train(tmp_path, config, expect=5)  # there is one, and it is damaged: not silently at step 0
    assert "step-5000" in done.stderr
    stale.rename(tmp_path / "away")
    train(tmp_path, config)
    (tmp_path / "away").rename(stale)
    done = train(tmp_path, {**config, "training": {**config["training"], "max_steps": 20}})
    assert checkpoints(tmp_path) == ["step-19", "step-20", "step-5000"]
    assert "step-5000" in done.stderr


def test_a_failing_save_is_told_and_training_goes_on_to_exit_5(tmp_path):
    config = config_with(checkpoint__interval=5)
    write(tmp_path, config)
    done = subprocess.run([str(TRAINCTL), "run", "config.json"], cwd=tmp_path, capture_output=True, text=True,
                          preexec_fn=small_files_only(20_000), timeout=120)
    assert done.returncode == 5, done.stderr
    assert "training goes on and tries again" in done.stderr and "File too large" in done.stderr
    assert "optimizer.safetensors" in done.stderr or "model.safetensors" in done.stderr
    assert len(steps(tmp_path)) == 20
    assert checkpoints(tmp_path) == []
    again = train(tmp_path, config, "--print-param-hash")  # no checkpoint: from the start
    (tmp_path / "gold").mkdir()
    assert param_hash(again) == param_hash(train(tmp_path / "gold", config, "--print-param-hash"))


def test_on_error_stop_ends_the_run_at_the_first_failure(tmp_path):
    write(tmp_path, config_with(checkpoint__interval=5, training__max_steps=100000, checkpoint__on_error="stop"))
    done = subprocess.run([str(TRAINCTL), "run", "config.json"], cwd=tmp_path, capture_output=True, text=True,
                          preexec_fn=small_files_only(20_000), timeout=120)
    assert done.returncode == 5 and "File too large" in done.stderr
    assert 5 <= len(steps(tmp_path)) < 1000


def test_a_save_that_failed_is_tried_again_at_the_next_interval(tmp_path):
    config = config_with(training__max_steps=100000, checkpoint__interval=20, lr_scheduler__type="constant",
                         lr_scheduler__min_learning_rate=None)
    write(tmp_path, config)
    process = subprocess.Popen([str(TRAINCTL), "run", "config.json"], cwd=tmp_path, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, preexec_fn=lambda: resource.setrlimit(
                                   resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY)))
    path = tmp_path / "runs/mini/metrics.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not path.exists() or len(path.read_text().splitlines()) < 25):
        time.sleep(0.01)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    while time.monotonic() < deadline and not any("step-" in n and "." not in n for n in checkpoints(tmp_path)):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    assert "tries again at the next interval" in errors
    assert checkpoints(tmp_path)


def test_killed_20_times_anywhere_and_still_bitwise(tmp_path):
    config = config_with(training__max_steps=400, checkpoint__interval=1, checkpoint__keep_latest=2,
                         model__dropout=0.1, backend__deterministic=True)
    gold, torn = tmp_path / "gold", tmp_path / "torn"
    gold.mkdir(), torn.mkdir()
    gold_hash = param_hash(train(gold, config, "--print-param-hash"))
    write(torn, config)
    rng = random.Random(6)
    kills = 0
    for _ in range(20):
        process = subprocess.Popen([str(TRAINCTL), "run", "config.json"], cwd=torn, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        try:
            process.wait(timeout=rng.uniform(0.1, 0.9))
        except subprocess.TimeoutExpired:
            process.kill()
            kills += 1
        _, errors = process.communicate()
        assert process.returncode in (0, -9), errors
        assert "passed over" not in errors
    assert kills > 0
    assert param_hash(train(torn, config, "--print-param-hash")) == gold_hash
    assert losses(torn) == losses(gold)
    assert len(checkpoints(torn)) == 2 and checkpoints(torn)[-1] == "step-400"


def test_leftovers_of_a_killed_run_are_swept_at_the_next_start(tmp_path):
    train(tmp_path, config_with())
    partial = tmp_path / "runs/mini/checkpoints/step-30.partial-0123456789abcdef"
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"x" * 100)
    train(tmp_path, config_with(training__max_steps=21))
    assert not partial.exists()
    assert "step-21" in checkpoints(tmp_path)
