"""Loss scaling against torch.amp.GradScaler, step for step, with injected infinities."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from support.optimizer_trace import make_problem, run_trace  # noqa: E402

OPTIMIZER = {"type": "adamw", "learning_rate": 1e-2, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8,
             "no_decay": []}


def scaler_config(max_norm=0.0, **scaler):
    return {"optimizer": OPTIMIZER, "training": {"max_grad_norm": max_norm},
            "precision": {"grad_scaler": {"enabled": True, **scaler}}}


def torch_run(config, initial, gradients, through_fp16=False):
    """The loop of PyTorch's AMP documentation, with the scaled gradients written in by hand."""
    options = config["precision"]["grad_scaler"]
    scaler = torch.amp.GradScaler("cpu", init_scale=options.get("init_scale", 65536.0),
                                  growth_factor=options.get("growth_factor", 2.0),
                                  backoff_factor=options.get("backoff_factor", 0.5),
                                  growth_interval=options.get("growth_interval", 2000))
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in initial.items()}
    optimizer = torch.optim.AdamW(parameters.values(), lr=OPTIMIZER["learning_rate"], betas=OPTIMIZER["betas"],
                                  eps=OPTIMIZER["eps"], weight_decay=OPTIMIZER["weight_decay"])
    updates = 0

    def count(*_):
        nonlocal updates
        updates += 1

    optimizer.register_step_post_hook(count)
    trace, lines = [], []
    for step in gradients:
        scale = scaler.scale(torch.ones(()))
        for name, parameter in parameters.items():
            grad = step[name] * scale
            parameter.grad = grad.half().float() if through_fp16 else grad
        scaler.unscale_(optimizer)
        max_norm = config["training"]["max_grad_norm"]
        torch.nn.utils.clip_grad_norm_(parameters.values(), max_norm if max_norm > 0 else float("inf"))
        before = updates
        scaler.step(optimizer)
        scaler.update()
        trace.append({name: p.detach().clone() for name, p in parameters.items()})
        state = scaler.state_dict()
        lines.append({"scale": state["scale"], "growth_tracker": state["_growth_tracker"],
                      "found_inf": float(updates == before)})
    return trace, lines


def inject(gradients, bad_steps):
    """One infinite or undefined element in the given steps."""
    values = [float("inf"), float("-inf"), float("nan")]
    for i, step in enumerate(bad_steps):
        names = sorted(gradients[step])
        gradients[step][names[i % len(names)]].view(-1)[i % 8] = values[i % 3]


def assert_same_run(tmp_path, config, initial, gradients, through_fp16=False):
    ours, our_lines = run_trace(tmp_path, config, initial, gradients, through_fp16=through_fp16)
    theirs, their_lines = torch_run(config, initial, gradients, through_fp16)
    for step, (a, b) in enumerate(zip(our_lines, their_lines)):
        assert {key: a[key] for key in b} == b, f"step {step}"
    for step, (a, b) in enumerate(zip(ours, theirs)):
        for name in b:
            torch.testing.assert_close(a[name], b[name], rtol=1e-6, atol=1e-6, msg=lambda m: f"{step} {name}: {m}")
    return ours, our_lines


@pytest.mark.parametrize("options", [
    {"growth_interval": 3},
    {"growth_interval": 1, "init_scale": 1.0},
    {"growth_interval": 4, "growth_factor": 3.0, "backoff_factor": 0.25, "init_scale": 1000.0},
])
def test_trace_with_injected_infinities(tmp_path, options):
    initial, gradients = make_problem(40)
    inject(gradients, [0, 3, 4, 9, 10, 11, 20, 33])
    _, lines = assert_same_run(tmp_path, scaler_config(**options), initial, gradients)
    assert sum(line["found_inf"] for line in lines) == 8
    assert len({line["scale"] for line in lines}) > 3


def test_growth_stops_before_the_scale_is_infinite(tmp_path):
    initial, gradients = make_problem(36)
    for step in gradients:
        for name in step:
            step[name] *= 1e-12  # so that the gradients stay finite up to the largest scale
    _, lines = assert_same_run(tmp_path, scaler_config(init_scale=2.0**96, growth_interval=1), initial, gradients)
    assert lines[-1]["scale"] == 2.0**127


def test_recovers_from_a_scale_of_2_to_the_40(tmp_path):
    """Gradients that overflow fp16 when scaled: the scale falls until they fit, and training goes on."""
    initial, gradients = make_problem(40)
    for step in gradients:
        for name in step:
            step[name] = step[name].sign() * 10  # fits below 65504 from a scale of 2^12 on
    ours, lines = assert_same_run(tmp_path, scaler_config(init_scale=2.0**40), initial, gradients, through_fp16=True)
    skipped = [line["found_inf"] for line in lines]
    assert skipped == [1] * 28 + [0] * 12
    assert all(torch.equal(ours[0][name], initial[name]) for name in initial)
    assert not torch.equal(ours[-1]["layers.0.mlp.weight"], initial["layers.0.mlp.weight"])


def test_every_gradient_infinite_changes_nothing(tmp_path):
    initial, gradients = make_problem(20)
    for step in gradients:
        for name in step:
            step[name].fill_(float("inf"))
    ours, lines = assert_same_run(tmp_path, scaler_config(), initial, gradients)
    assert all(line["found_inf"] == 1 for line in lines)
    assert all(torch.equal(ours[-1][name], initial[name]) for name in initial)


@pytest.mark.parametrize("case", ["clip", "clip and infinities"])
def test_clipping_acts_on_unscaled_gradients(tmp_path, case):
    """Clip 0.1 with an initial scale of 1 and of 65536 gives the same curve."""
    initial, gradients = make_problem(25)
    if case == "clip and infinities":
        inject(gradients, [2, 7, 8])
    runs = [assert_same_run(tmp_path, scaler_config(0.1, init_scale=scale), initial, gradients)
            for scale in (1.0, 65536.0)]
    (small, small_lines), (large, large_lines) = runs
    assert [line["grad_norm"] for line in small_lines] == [line["grad_norm"] for line in large_lines]
    for a, b in zip(small, large):
        assert all(torch.equal(a[name], b[name]) for name in a)


def test_a_fixed_scale_stays_and_infinities_are_still_skipped(tmp_path):
    initial, gradients = make_problem(12)
    inject(gradients, [4])
    ours, lines = run_trace(tmp_path, scaler_config(dynamic=False, init_scale=128.0, growth_interval=2), initial,
                            gradients)
    assert {line["scale"] for line in lines} == {128.0}
    assert [line["found_inf"] for line in lines] == [float(step == 4) for step in range(12)]
    assert all(torch.equal(ours[4][name], ours[3][name]) for name in initial)
    assert not torch.equal(ours[5]["layers.0.mlp.weight"], ours[4]["layers.0.mlp.weight"])


def test_without_scaling_a_non_finite_step_is_skipped_too(tmp_path):
    initial, gradients = make_problem(12)
    inject(gradients, [0, 5, 6])
    config = {"optimizer": OPTIMIZER, "training": {"max_grad_norm": 1.0}}
    ours, lines = run_trace(tmp_path, config, initial, gradients)
    assert [step for step, line in enumerate(lines) if line["found_inf"]] == [0, 5, 6]
    kept = [g for step, g in enumerate(gradients) if step not in (0, 5, 6)]
    without, _ = run_trace(tmp_path, config, initial, kept)
    assert all(torch.equal(ours[-1][name], without[-1][name]) for name in initial)
