"""Optimizers, parameter groups and clipping against torch.optim and clip_grad_norm_."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from support.optimizer_trace import PARAMETERS, make_problem, run_trace  # noqa: E402

STEPS = 24
TORCH = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
ADAM_KEYS = {"lr": "learning_rate", "weight_decay": "weight_decay", "betas": "betas", "eps": "eps"}
SGD_KEYS = {"lr": "learning_rate", "weight_decay": "weight_decay", "momentum": "momentum", "nesterov": "nesterov"}


def torch_run(config, groups, initial, gradients, max_norm=0.0):
    """Parameters after each step, and the norms. `groups`: [(names, overrides)]."""
    optimizer_config = config["optimizer"]
    keys = SGD_KEYS if optimizer_config["type"] == "sgd" else ADAM_KEYS
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in initial.items()}
    options = {ours: optimizer_config[key] for ours, key in keys.items() if key in optimizer_config}
    optimizer = TORCH[optimizer_config["type"]](
        [{"params": [parameters[n] for n in names], **overrides} for names, overrides in groups], **options)
    trace, norms = [], []
    for step in gradients:
        for name, parameter in parameters.items():
            parameter.grad = step[name].clone() if name in step else None
        limit = max_norm if max_norm > 0 else float("inf")
        norms.append(torch.nn.utils.clip_grad_norm_(parameters.values(), limit).item())
        optimizer.step()
        trace.append({name: p.detach().clone() for name, p in parameters.items()})
    return trace, norms


def assert_same(ours, theirs):
    assert len(ours) == len(theirs)
    for step, (a, b) in enumerate(zip(ours, theirs)):
        for name in b:
            torch.testing.assert_close(a[name], b[name], rtol=1e-6, atol=1e-6, msg=lambda m: f"{step} {name}: {m}")


CASES = {
    "adamw": {"type": "adamw", "learning_rate": 1e-2, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8},
    "adamw other betas": {"type": "adamw", "learning_rate": 3e-3, "weight_decay": 0.0, "betas": [0.8, 0.999], "eps": 1e-6},
    "adam": {"type": "adam", "learning_rate": 1e-2, "weight_decay": 0.0, "betas": [0.9, 0.999], "eps": 1e-8},
    "adam with L2": {"type": "adam", "learning_rate": 1e-2, "weight_decay": 0.1, "betas": [0.9, 0.999], "eps": 1e-8},
    "sgd": {"type": "sgd", "learning_rate": 1e-1, "weight_decay": 0.0, "momentum": 0.0},
    "sgd with momentum": {"type": "sgd", "learning_rate": 1e-2, "weight_decay": 0.1, "momentum": 0.9},
    "sgd with nesterov": {"type": "sgd", "learning_rate": 1e-2, "weight_decay": 0.1, "momentum": 0.9, "nesterov": True},
}


@pytest.mark.parametrize("case", CASES)
def test_every_optimizer_follows_torch(tmp_path, case):
    config = {"optimizer": {**CASES[case], "no_decay": []}, "training": {"max_grad_norm": 0}}
    initial, gradients = make_problem(STEPS)
    ours, lines = run_trace(tmp_path, config, initial, gradients)
    theirs, norms = torch_run(config, [(list(initial), {})], initial, gradients)
    assert_same(ours, theirs)
    assert [line["grad_norm"] for line in lines] == pytest.approx(norms, rel=1e-5)
    assert max((ours[-1][n] - initial[n]).abs().max() for n in initial) > 0.01  # it moved


def test_state_survives_a_reload_by_name(tmp_path):
    config = {"optimizer": {**CASES["adamw"], "no_decay": []}, "training": {"max_grad_norm": 0}}
    initial, gradients = make_problem(STEPS)
    whole, _ = run_trace(tmp_path, config, initial, gradients)
    resumed, _ = run_trace(tmp_path, config, initial, gradients, reload_before=11)
    for a, b in zip(whole, resumed):
        assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("case", ["adamw", "adam with L2", "sgd with momentum"])
def test_no_decay_kinds_and_groups_by_glob(tmp_path, case):
    config = {
        "optimizer": {
            **CASES[case],
            "groups": [{"params": "layers.0.*", "weight_decay": 0.3},
                       {"params": "*.norm.*", "learning_rate": CASES[case]["learning_rate"] / 4}],
        },
        "training": {"max_grad_norm": 0},
    }
    initial, gradients = make_problem(STEPS)
    rate = CASES[case]["learning_rate"]
    expected_groups = [
        (["layers.0.mlp.weight", "layers.0.mlp.bias"], {"weight_decay": 0.3}),
        (["layers.1.norm.weight"], {"weight_decay": 0.0, "lr": rate / 4}),
        (["embedding.weight", "layers.1.mlp.bias"], {"weight_decay": 0.0}),
        (["layers.1.mlp.weight"], {}),
    ]
    assert sorted(n for names, _ in expected_groups for n in names) == sorted(PARAMETERS)
    ours, _ = run_trace(tmp_path, config, initial, gradients)
    assert_same(ours, torch_run(config, expected_groups, initial, gradients)[0])


@pytest.mark.parametrize("case", ["adamw", "sgd with momentum"])
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 1000.0])
def test_clipping_follows_clip_grad_norm(tmp_path, case, max_norm):
    config = {"optimizer": {**CASES[case], "no_decay": []}, "training": {"max_grad_norm": max_norm}}
    initial, gradients = make_problem(STEPS)
    ours, lines = run_trace(tmp_path, config, initial, gradients)
    theirs, norms = torch_run(config, [(list(initial), {})], initial, gradients, max_norm)
    assert_same(ours, theirs)
    assert [line["grad_norm"] for line in lines] == pytest.approx(norms, rel=1e-5)


@pytest.mark.parametrize("case", ["adamw", "sgd with momentum"])
def test_a_parameter_whose_gradient_comes_and_goes(tmp_path, case):
    config = {"optimizer": {**CASES[case], "no_decay": []}, "training": {"max_grad_norm": 0}}
    initial, gradients = make_problem(STEPS)
    for step in (0, 1, 5, 9):
        del gradients[step]["layers.1.mlp.weight"]
    del gradients[5]["embedding.weight"]
    ours, _ = run_trace(tmp_path, config, initial, gradients)
    assert_same(ours, torch_run(config, [(list(initial), {})], initial, gradients)[0])
    assert torch.equal(ours[1]["layers.1.mlp.weight"], initial["layers.1.mlp.weight"])
