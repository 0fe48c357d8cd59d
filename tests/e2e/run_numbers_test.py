"""Numbers that must not depend on how the work is cut: determinism, accumulation, partial windows, clipping."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TEXT, config_with, losses, param_hash, steps, train  # noqa: E402


def relative(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_two_deterministic_runs_are_bitwise_equal(tmp_path, threads, dtype):
    config = config_with(model__dropout=0.2, model__d_model=64, model__n_layers=2, backend__threads=threads,
                         backend__deterministic=True, data__workers=2, precision__dtype=dtype,
                         training__global_batch_size=4)
    results = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        done = train(folder, config, "--print-param-hash")
        results.append((param_hash(done), losses(folder), [line["grad_norm"] for line in steps(folder)]))
    assert results[0] == results[1]


def test_another_seed_gives_another_run(tmp_path):
    train(tmp_path, config_with())
    train(tmp_path, config_with(run__name="other", run__seed=2))
    assert losses(tmp_path) != losses(tmp_path, "other")


@pytest.mark.parametrize("micro_batch", [1, 2, 5])
def test_accumulation_equals_the_big_batch(tmp_path, micro_batch):
    # 5 sequences a step; the last window of an epoch is shorter and the last step of an epoch partial.
    big = config_with(run__name="big", training__micro_batch_size=5, training__global_batch_size=5,
                      training__max_steps=40)
    cut = config_with(run__name="cut", training__micro_batch_size=micro_batch, training__global_batch_size=5,
                      training__max_steps=40)
    if 5 % micro_batch:
        cut["training"]["global_batch_size"] = 4
        big["training"].update(micro_batch_size=4, global_batch_size=4)
    train(tmp_path, big, text=TEXT + "x")
    train(tmp_path, cut, text=TEXT + "x")
    for key in ("loss", "grad_norm"):
        a = [line[key] for line in steps(tmp_path, "cut")]
        b = [line[key] for line in steps(tmp_path, "big")]
        assert relative(a, b) < 2e-5
    assert [line["learning_rate"] for line in steps(tmp_path, "cut")] == [
        line["learning_rate"] for line in steps(tmp_path, "big")]


def test_accumulation_of_0_is_refused(tmp_path):
    done = train(tmp_path, config_with(training__gradient_accumulation_steps=0), expect=2)
    assert "gradient_accumulation_steps" in done.stderr


def test_clipping_happens_after_unscaling(tmp_path):
    curves = []
    for name, scale in (("small", 1.0), ("large", 65536.0)):
        config = config_with(run__name=name, training__max_grad_norm=0.1,
                             precision__grad_scaler={"enabled": True, "init_scale": scale})
        train(tmp_path, config)
        curves.append((losses(tmp_path, name), [line["grad_norm"] for line in steps(tmp_path, name)]))
    assert relative(curves[0][0], curves[1][0]) < 1e-6
    assert relative(curves[0][1], curves[1][1]) < 1e-5


def test_a_scale_that_is_far_too_high_recovers(tmp_path):
    config = config_with(precision__dtype="fp16", precision__grad_scaler={"init_scale": 2.0**40},
                         training__max_steps=60, training__max_nonfinite_steps=50)
    train(tmp_path, config)
    lines = steps(tmp_path)
    assert lines[0]["loss_scale"] == 2.0**39 and lines[-1]["loss_scale"] < 2.0**32
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_gradients_that_stay_infinite_stop_the_run_with_a_diagnosis(tmp_path):
    config = config_with(precision__dtype="fp16",
                         precision__grad_scaler={"dynamic": False, "init_scale": 1e30},
                         training__max_nonfinite_steps=5, training__max_steps=100)
    done = train(tmp_path, config, expect=1)
    assert "5 steps in a row" in done.stderr and "gradients" in done.stderr and "loss scale" in done.stderr
    assert [line["step"] for line in steps(tmp_path)][-1] == 5


def test_worker_threads_and_prefetch_do_not_change_the_samples(tmp_path):
    curves = []
    for workers, prefetch in ((0, 1), (1, 4), (4, 9)):
        name = f"w{workers}"
        train(tmp_path, config_with(run__name=name, data__workers=workers, data__prefetch=prefetch))
        curves.append(losses(tmp_path, name))
    assert curves[0] == curves[1] == curves[2]
