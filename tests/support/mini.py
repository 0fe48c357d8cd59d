"""The MINI run of the failure cases: a tiny GPT on a few hundred bytes, and how to run it."""

import copy
import json
import os
import pathlib
import signal
import subprocess
import time

BIN = pathlib.Path(os.environ.get("TRAINCTL_BIN", "build/release/bin")).resolve()
SOURCE = pathlib.Path(os.environ.get("TRAINCTL_SOURCE", pathlib.Path(__file__).parents[2])).resolve()
TRAINCTL = BIN / "trainctl"

MINI = {
    "run": {"name": "mini", "output_dir": "runs", "seed": 1},
    "model": {"type": "gpt", "vocab_size": 257, "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 64,
              "max_seq_len": 8, "dropout": 0.0, "tie_embeddings": True},
    "data": {"format": "text", "train": ["data.txt"], "validation": [], "validation_fraction": 0.1,
             "seq_len": 8, "shuffle": True},
    "training": {"max_steps": 20, "micro_batch_size": 2, "global_batch_size": 2, "max_grad_norm": 1.0, "loss": "auto"},
    "optimizer": {"type": "adamw", "learning_rate": 1e-3, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8},
    "lr_scheduler": {"type": "cosine", "warmup_steps": 2, "min_learning_rate": 1e-4},
    "precision": {"dtype": "fp32", "float32_matmul_precision": "highest",
                  "grad_scaler": {"enabled": "auto", "init_scale": 65536}},
    "backend": {"device": "cpu", "deterministic": False, "cudnn_benchmark": True, "cudnn_deterministic": False,
                "threads": 1},
    "parallel": {"strategy": "ddp", "backend": "auto", "bucket_mb": 25},
    "validation": {"interval": 10},
    "checkpoint": {"interval": 10, "keep_latest": 3},
    "logging": {"interval": 1},
}
TEXT = "The quick brown fox jumps over the lazy dog. Pack my box with five dozen liquor jugs. " * 3


def config_with(**changes):
    """MINI with changes by key path, dots written as double underscores: training__max_steps=5."""
    config = copy.deepcopy(MINI)
    for path, value in changes.items():
        *sections, key = path.split("__")
        node = config
        for section in sections:
            node = node.setdefault(section, {})
        if value is None:
            node.pop(key, None)
        else:
            node[key] = value
    return config


def write(folder, config, text=TEXT, name="config.json"):
    folder = pathlib.Path(folder)
    if text is not None:
        (folder / "data.txt").write_text(text)
    (folder / name).write_text(json.dumps(config, indent=2))
    return folder / name


def trainctl(*args, cwd=None, env=None, timeout=120, **kwargs):
    """Runs the program; returns the completed process with text output."""
    return subprocess.run([str(TRAINCTL), *map(str, args)], cwd=cwd, env={**os.environ, **(env or {})},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, **kwargs)


def train(folder, config, *args, text=TEXT, expect=0, **kwargs):
    """Writes config and data into `folder` and runs them there."""
    write(folder, config, text)
    done = trainctl("run", "config.json", *args, cwd=folder, **kwargs)
    assert done.returncode == expect, f"exit {done.returncode}, expected {expect}\n{done.stdout}\n{done.stderr}"
    return done


def strict_json(line):
    def refuse(token):
        raise ValueError(f"not JSON: {token}")
    return json.loads(line, parse_constant=refuse)


def metrics(folder, name="mini"):
    """All lines of metrics.jsonl, each checked to be strict JSON."""
    path = pathlib.Path(folder) / "runs" / name / "metrics.jsonl"
    return [strict_json(line) for line in path.read_text().splitlines()]


def steps(folder, name="mini"):
    return [line for line in metrics(folder, name) if "loss" in line]


def losses(folder, name="mini"):
    return [line["loss"] for line in steps(folder, name)]


def param_hash(done):
    lines = [line for line in done.stdout.splitlines() if line.startswith("param_hash ")]
    assert len(lines) == 1, done.stdout
    return lines[0].split()[1]


def run_until_step(folder, config, step, signal_number=signal.SIGINT, name="mini", timeout=60, args=()):
    """Starts a run and sends the signal once metrics.jsonl shows `step`; returns the finished process."""
    write(folder, config)
    process = subprocess.Popen([str(TRAINCTL), "run", "config.json", *args], cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    path = pathlib.Path(folder) / "runs" / name / "metrics.jsonl"
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and any(f'"step":{n}' in path.read_text().replace(" ", "") for n in range(step, step + 50)):
            process.send_signal(signal_number)
            break
        time.sleep(0.005)
    out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
