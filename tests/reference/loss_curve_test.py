"""Twenty steps of `trainctl run` against the same training in PyTorch: equal weights, batches, schedule."""
import json
import math

import pytest
import torch

import reference_tool as tool
import torch_models

STEPS = 20
BASE_RATE, MIN_RATE, WARMUP = 1e-2, 1e-3, 3
OPTIMIZER = {"learning_rate": BASE_RATE, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8}
MODELS = {
    "gpt": ("gpt", {}),
    "gpt-rotary-swiglu-untied": ("gpt", {"position": "rotary", "activation": "swiglu", "tie_embeddings": False}),
    "gpt-post": ("gpt", {"norm_order": "post", "activation": "relu"}),
    "encoder": ("encoder_classifier", {}),
    "encoder-mean": ("encoder_classifier", {"pooling": "mean", "n_classes": 7}),
}


def make_config(folder, section, dtype="fp32", optimizer="adamw", **training):
    return tool.write_config(
        folder, section, dtype=dtype, optimizer={"type": optimizer, **OPTIMIZER},
        lr_scheduler={"type": "cosine", "warmup_steps": WARMUP, "min_learning_rate": MIN_RATE},
        training={"max_steps": STEPS, "max_grad_norm": 0.5, "label_smoothing": 0.1, **training})


def trainctl_curve(config):
    tool.run("trainctl", "run", config)
    lines = (config.parent / "runs" / "reference" / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "loss" in record]


def rate_at(step):
    if step < WARMUP:
        return BASE_RATE * (step + 1) / WARMUP
    t = (step - WARMUP) / (STEPS - WARMUP)
    return MIN_RATE + (BASE_RATE - MIN_RATE) * (1 + math.cos(math.pi * t)) / 2


def torch_optimizer(model, kind):
    matrices, others = [], []
    for name, p in model.named_parameters():
        plain = p.dim() < 2 or "embedding" in name  # norms, biases and embeddings do not decay
        (others if plain else matrices).append(p)
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    adam = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
    return adam(groups, lr=BASE_RATE, betas=tuple(OPTIMIZER["betas"]), eps=OPTIMIZER["eps"])


def torch_curve(config, section, dtype="fp32", optimizer="adamw"):
    model = torch_models.build(section)
    missing = model.load_state_dict(tool.initial_weights(config), strict=False)
    assert missing.unexpected_keys == [] and set(missing.missing_keys) <= {"head.weight"}
    update = torch_optimizer(model, optimizer)
    curve = []
    for step, micro_batches in enumerate(tool.batches(config, STEPS)):
        valid = sum(int((targets != -100).sum()) for _, targets in micro_batches)
        update.zero_grad()
        loss = 0.0
        for tokens, targets in micro_batches:
            with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
                share = int((targets != -100).sum()) / valid
                part = torch_models.loss_of(model, tokens, targets, 0.1) * share
            part.backward()
            loss += part.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for group in update.param_groups:
            group["lr"] = rate_at(step)
        update.step()
        curve.append((loss, norm.item()))
    return curve


def compare(ours, theirs, tolerance):
    assert [record["step"] for record in ours] == list(range(1, STEPS + 1))
    for step, (record, (loss, norm)) in enumerate(zip(ours, theirs)):
        assert record["learning_rate"] == pytest.approx(rate_at(step), rel=1e-9), step
        assert record["loss"] == pytest.approx(loss, rel=tolerance), step
        assert record["grad_norm"] == pytest.approx(norm, rel=20 * tolerance), step
    assert theirs[-1][0] < theirs[0][0]  # it learns: twenty equal losses would prove nothing


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", MODELS)
def test_fp32_curve(tmp_path, name):
    kind, options = MODELS[name]
    section = torch_models.model_section(kind, **options)
    config = make_config(tmp_path, section, overfit_one_batch=True)
    compare(trainctl_curve(config), torch_curve(config, section), 1e-5)


@pytest.mark.parametrize("name", ["gpt", "encoder"])
def test_fp32_curve_over_an_epoch_with_accumulation(tmp_path, name):
    """64 sequences make 5⅓ steps of 12: the epoch's last step holds fewer micro-batches."""
    kind, options = MODELS[name]
    section = torch_models.model_section(kind, **options)
    config = make_config(tmp_path, section, micro_batch_size=4, gradient_accumulation_steps=3)
    compare(trainctl_curve(config), torch_curve(config, section), 1e-5)


def relative_errors(curve, exact):
    """Of losses and of gradient norms, over all steps: root mean square."""
    return [(sum(((a[i] - b[i]) / b[i]) ** 2 for a, b in zip(curve, exact, strict=True)) / len(exact)) ** 0.5
            for i in (0, 1)]


@pytest.mark.parametrize("name", MODELS)
def test_bf16_curve(tmp_path, name):
    """Held against PyTorch's fp32 curve, with the error of PyTorch's own bf16 curve as the measure: Adam makes whole
    steps of gradients that are zero but for rounding, so that two bf16 runs drift apart by chance, now one further,
    now the other. Over three seeds the chance averages out."""
    kind, options = MODELS[name]
    section = torch_models.model_section(kind, **options)
    ours, theirs = [0.0, 0.0], [0.0, 0.0]
    for seed in (1, 2, 3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        config = make_config(folder, section, dtype="bf16", overfit_one_batch=True)
        settings = json.loads(config.read_text())
        settings["run"]["seed"] = seed
        config.write_text(json.dumps(settings))
        records = trainctl_curve(config)
        curve, exact = torch_curve(config, section, "bf16"), torch_curve(config, section)
        for record, (loss, _) in zip(records, curve, strict=True):
            assert record["loss"] == pytest.approx(loss, rel=2.0**-7), (seed, record["step"])
        for total, values in ((ours, [(r["loss"], r["grad_norm"]) for r in records]), (theirs, curve)):
            for i, error in enumerate(relative_errors(values, exact)):
                total[i] += error**2
    for mine, measure in zip(ours, theirs, strict=True):
        assert mine**0.5 < 2.5 * measure**0.5 + 2.0**-10, (ours, theirs)


def test_fp32_curve_with_adam(tmp_path):
    section = torch_models.model_section("encoder_classifier")
    config = make_config(tmp_path, section, optimizer="adam", overfit_one_batch=True)
    compare(trainctl_curve(config), torch_curve(config, section, optimizer="adam"), 1e-5)
