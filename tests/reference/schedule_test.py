"""Every learning-rate schedule against PyTorch's own schedulers."""

import pathlib
import sys

import pytest
import torch
from torch.optim import lr_scheduler

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from support.optimizer_trace import run_trace  # noqa: E402

BASE, MIN, TOTAL = 3e-3, 2e-4, 60


def our_rates(folder, scheduler, steps=TOTAL):
    config = {"optimizer": {"type": "sgd", "learning_rate": BASE}, "lr_scheduler": scheduler}
    initial = {"layers.0.mlp.bias": torch.zeros(8)}
    return [line["learning_rate"] for line in run_trace(folder, config, initial, [], steps=steps)[1]]


def torch_rates(make_scheduler, steps=TOTAL):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    scheduler = make_scheduler(optimizer)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def after_warmup(warmup, *rest):
    """Linear warm-up, of which the first step is already base / warmup, then the parts of `rest`, each
    (steps, function that makes its scheduler)."""

    def rise(optimizer):
        # LinearLR goes from start_factor to 1 in total_iters steps: 1/w at step 0, 1 at step w − 1.
        if warmup < 2:
            return hold(optimizer)
        return lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)

    parts = ([(warmup, rise)] if warmup > 0 else []) + list(rest)

    def make(optimizer):
        ends = [sum(steps for steps, _ in parts[: i + 1]) for i in range(len(parts) - 1)]
        return lr_scheduler.SequentialLR(optimizer, [part(optimizer) for _, part in parts], milestones=ends)

    return make


def hold(optimizer):
    return lr_scheduler.ConstantLR(optimizer, factor=1.0)


def fall(steps):
    return lambda o: lr_scheduler.LinearLR(o, start_factor=1.0, end_factor=MIN / BASE, total_iters=steps)


WARMUPS = [0, 1, 2, 10]


@pytest.mark.parametrize("warmup", WARMUPS)
def test_constant(tmp_path, warmup):
    ours = our_rates(tmp_path, {"type": "constant", "warmup_steps": warmup})
    theirs = torch_rates(after_warmup(warmup, (TOTAL, hold)))
    assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("warmup", WARMUPS)
def test_linear(tmp_path, warmup):
    ours = our_rates(tmp_path, {"type": "linear", "warmup_steps": warmup, "min_learning_rate": MIN})
    assert ours == pytest.approx(torch_rates(after_warmup(warmup, (TOTAL, fall(TOTAL - warmup)))), rel=1e-9)


@pytest.mark.parametrize("warmup", WARMUPS)
def test_cosine(tmp_path, warmup):
    ours = our_rates(tmp_path, {"type": "cosine", "warmup_steps": warmup, "min_learning_rate": MIN})
    theirs = torch_rates(after_warmup(
        warmup, (TOTAL, lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=TOTAL - warmup, eta_min=MIN))))
    assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("warmup", WARMUPS)
def test_inverse_sqrt(tmp_path, warmup):
    # PyTorch has none; "Attention Is All You Need", section 5.3, scaled to reach the base rate at the
    # end of the warm-up, as a factor: min(s / w, (w / s)^½) with s counted from 1.
    w = max(warmup, 1)
    floor = 0.4  # of the base rate, so that it is reached within the run

    def factor(step):
        return min((step + 1) / w, (w / (step + 1)) ** 0.5)

    ours = our_rates(tmp_path, {"type": "inverse_sqrt", "warmup_steps": warmup, "min_learning_rate": floor * BASE})
    theirs = torch_rates(lambda o: lr_scheduler.LambdaLR(
        o, lambda step: factor(step) if step < warmup else max(floor, factor(step))))
    assert ours == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize("warmup", WARMUPS)
@pytest.mark.parametrize("decay", [{"decay_steps": 15}, {"decay_ratio": 0.25}])
def test_warmup_stable_decay(tmp_path, warmup, decay):
    ours = our_rates(tmp_path, {"type": "warmup_stable_decay", "warmup_steps": warmup, "min_learning_rate": MIN,
                                **decay})
    theirs = torch_rates(after_warmup(warmup, (TOTAL - warmup - 15, hold), (15, fall(15))))
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_warmup_ratio(tmp_path):
    by_ratio = our_rates(tmp_path, {"type": "cosine", "warmup_ratio": 0.1, "min_learning_rate": MIN})
    assert by_ratio == our_rates(tmp_path, {"type": "cosine", "warmup_steps": 6, "min_learning_rate": MIN})
    assert by_ratio[5] == BASE and by_ratio[0] == pytest.approx(BASE / 6)
