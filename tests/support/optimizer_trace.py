"""Runs the tool optimizer_trace (tests/tools) and reads back what it did."""

import json
import os
import pathlib
import subprocess

import torch
from safetensors.torch import load_file, save_file

TOOL = pathlib.Path(os.environ.get("TRAINCTL_BIN", "build/release/bin")).resolve() / "optimizer_trace"

# name → (shape, kind)
PARAMETERS = {
    "embedding.weight": ((11, 8), "embedding"),
    "layers.0.mlp.weight": ((8, 8), "matrix"),
    "layers.0.mlp.bias": ((8,), "bias"),
    "layers.1.mlp.weight": ((16, 8), "matrix"),
    "layers.1.mlp.bias": ((16,), "bias"),
    "layers.1.norm.weight": ((8,), "norm"),
}


def make_problem(steps, seed=0):
    """Initial values and one dict of gradients per step, of very different sizes."""
    generator = torch.Generator().manual_seed(seed)

    def draw(scale=1.0):
        return {name: torch.randn(shape, generator=generator) * scale for name, (shape, _) in PARAMETERS.items()}

    return draw(), [draw(10.0 ** (step % 5 - 3)) for step in range(steps)]


def run_trace(folder, config, initial, gradients, steps=None, reload_before=-1, through_fp16=False):
    """(parameters after each step, one dict per step as the tool printed it)."""
    steps = len(gradients) if steps is None else steps
    run_config = {
        "data": {"format": "synthetic"},
        "lr_scheduler": {"type": "constant"},
        **config,
        "training": {"max_steps": steps, **config.get("training", {})},
    }
    scenario = {
        "config": run_config,
        "parameters": [{"name": name, "kind": PARAMETERS[name][1]} for name in initial],
        "steps": steps,
        "reload_before": reload_before,
        "through_fp16": through_fp16,
    }
    (folder / "scenario.json").write_text(json.dumps(scenario))
    tensors = {f"initial/{name}": value for name, value in initial.items()}
    for step, grads in enumerate(gradients):
        tensors.update({f"{step}/{name}": grad for name, grad in grads.items()})
    save_file(tensors, folder / "in.safetensors")
    result = subprocess.run([TOOL, "scenario.json", "in.safetensors", "out.safetensors"], cwd=folder,
                            capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    out = load_file(folder / "out.safetensors")
    trace = [{name: out[f"{step}/{name}"] for name in initial} for step in range(steps)]
    return trace, [json.loads(line) for line in result.stdout.splitlines()]
