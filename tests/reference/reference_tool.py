"""Runs the program and tests/tools/reference_dump.cpp for the reference tests."""
import json
import os
import pathlib
import subprocess

from safetensors.torch import load_file, save_file

BIN = pathlib.Path(os.environ["TRAINCTL_BIN"])


def write_config(folder, model, *, seq_len=None, dtype="fp32", **sections):
    """A one-thread CPU config over synthetic data; `sections` are merged over it."""
    config = {
        "run": {"name": "reference", "output_dir": str(folder / "runs"), "seed": 5},
        "model": model,
        "data": {"format": "synthetic", "seq_len": seq_len or model["max_seq_len"], "synthetic_sequences": 64},
        "training": {"max_steps": 20, "micro_batch_size": 4},
        "precision": {"dtype": dtype},
        "backend": {"device": "cpu", "threads": 1},
        "logging": {"interval": 1, "progress": "none"},
    }
    for name, values in sections.items():
        config[name] = {**config.get(name, {}), **values}
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def run(program, *args):
    done = subprocess.run([BIN / program, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, f"{program} {args}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def initial_weights(config):
    out = config.parent / "weights.safetensors"
    run("reference_dump", "weights", config, out)
    return load_file(out)


def batches(config, steps):
    """Per step a list of (tokens, targets), one per micro-batch."""
    out = config.parent / "batches.safetensors"
    run("reference_dump", "batches", config, steps, out)
    tensors = load_file(out)
    result = [[] for _ in range(steps)]
    for step in range(steps):
        while (prefix := f"{step}.{len(result[step])}.") + "tokens" in tensors:
            result[step].append((tensors[prefix + "tokens"], tensors[prefix + "targets"]))
    return result


def gradients(config, model, tokens, targets):
    """Logits, loss and gradients of trainctl's model with the weights of a PyTorch one."""
    source, out = config.parent / "in.safetensors", config.parent / "out.safetensors"
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}  # a tied one once
    save_file({**weights, "tokens": tokens, "targets": targets}, source)
    run("reference_dump", "gradients", config, source, out)
    return load_file(out)
