"""Logits, loss and every gradient of both models against the same model in PyTorch."""
import pytest
import torch

import reference_tool as tool
import torch_models

GPT_CASES = {
    "default": {},
    "untied": {"tie_embeddings": False},
    "no_bias": {"bias": False},
    "rotary": {"position": "rotary"},
    "rotary_theta_nobias_untied": {"position": "rotary", "rope_theta": 500.0, "bias": False, "tie_embeddings": False},
    "post_norm": {"norm_order": "post"},
    "post_norm_rotary": {"norm_order": "post", "position": "rotary"},
    "gelu_tanh": {"activation": "gelu_tanh"},
    "relu": {"activation": "relu"},
    "swiglu": {"activation": "swiglu"},
    "swiglu_rotary_nobias_untied": {"activation": "swiglu", "position": "rotary", "bias": False,
                                    "tie_embeddings": False},
    "swiglu_post": {"activation": "swiglu", "norm_order": "post"},
    "large_eps_one_layer_one_head": {"norm_eps": 0.1, "n_layers": 1, "n_heads": 1},
}
ENCODER_CASES = {
    "reference": {},
    "mean": {"pooling": "mean", "n_classes": 5},
    "first": {"pooling": "first"},
    "pre_norm": {"norm_order": "pre"},
    "gelu": {"activation": "gelu"},
    "gelu_tanh_pre_mean": {"activation": "gelu_tanh", "norm_order": "pre", "pooling": "mean"},
    "large_eps_first": {"norm_eps": 0.1, "pooling": "first", "n_classes": 2},
}
CASES = [pytest.param("gpt", options, id=f"gpt-{name}") for name, options in GPT_CASES.items()] + [
    pytest.param("encoder_classifier", options, id=f"encoder-{name}") for name, options in ENCODER_CASES.items()]


def random_model(section, seed=0):
    """Weights large enough that every path matters: with initial ones attention is nearly uniform."""
    torch.manual_seed(seed)
    model = torch_models.build(section)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * (0.3 / max(p.shape[-1] / 32, 1) ** 0.5 if p.dim() > 1 else 0.2))
    return model


def random_batch(section, time, batch=4):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(section["vocab_size"], (batch, time), generator=generator)
    pooled = section.get("pooling", "none") != "none"
    classes = section.get("n_classes") or section["vocab_size"]
    targets = torch.randint(classes, (batch,) if pooled else (batch, time), generator=generator)
    targets.view(-1)[1] = -100
    targets.view(-1)[-1] = -100
    return tokens, targets


def relative(ours, theirs):
    return ((ours - theirs).norm() / theirs.norm().clamp_min(1e-30)).item()


def without_key_bias(name, gradient):
    """The gradient of a key bias is zero but for rounding (docs/models.md): left out."""
    if not name.endswith(("qkv.bias", "in_proj_bias")):
        return gradient
    q, _, v = gradient.chunk(3)
    return torch.cat((q, v))


def compare(ours, model, logits, loss, tolerance):
    worst = {"logits": relative(ours["logits"], logits.detach().float()),
             "loss": relative(ours["loss"], loss.detach())}
    names = {"grad." + name for name, _ in model.named_parameters()}
    assert names == {key for key in ours if key.startswith("grad.")}
    for name, p in model.named_parameters():
        worst[name] = relative(without_key_bias(name, ours["grad." + name]), without_key_bias(name, p.grad))
    bad = {name: error for name, error in worst.items() if not error < tolerance}
    assert not bad, bad
    return worst


@pytest.mark.parametrize("time", [16, 9])
@pytest.mark.parametrize("kind,options", CASES)
def test_fp32_matches_pytorch(tmp_path, kind, options, time):
    section = torch_models.model_section(kind, **options)
    smoothing = 0.1 if time == 9 else 0.0
    config = tool.write_config(tmp_path, section, training={"label_smoothing": smoothing, "max_steps": 1})
    model = random_model(section)
    tokens, targets = random_batch(section, time)
    ours = tool.gradients(config, model, tokens, targets)
    logits = model(tokens)
    loss = torch_models.loss_of(model, tokens, targets, smoothing)
    loss.backward()
    compare(ours, model, logits, loss, 1e-5)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("kind,options", CASES)
def test_autocast_is_as_near_to_fp32_as_pytorch(tmp_path, kind, options, dtype):
    """The two round at different places here and there (PyTorch's attention module adds a bias after
    rounding, fused kernels round less often), so neither can be held against the other bit by bit: both are
    held against the fp32 values, ours with the errors of PyTorch's autocast as the measure. The factors are
    wide because a rounding that flips a ReLU moves gradients far more than itself: over many weights the
    ratio of the two errors averages to one, but single draws go from 0.5 to 2."""
    section = torch_models.model_section(kind, **options)
    config = tool.write_config(tmp_path, section, dtype=dtype, training={"max_steps": 1})
    model = random_model(section)
    tokens, targets = random_batch(section, 16, batch=24)  # many, so that the errors average out
    ours = tool.gradients(config, model, tokens, targets)

    def torch_values(enabled):
        model.zero_grad()
        torch_type = {"bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
        with torch.autocast("cpu", torch_type, enabled=enabled):
            logits = model(tokens)
            loss = torch_models.loss_of(model, tokens, targets)
        loss.backward()
        grads = {"grad." + name: p.grad.clone() for name, p in model.named_parameters()}
        return {"logits": logits.detach().float(), "loss": loss.detach(), **grads}

    exact, theirs = torch_values(False), torch_values(True)
    epsilon = {"bf16": 2.0**-8, "fp16": 2.0**-11}[dtype]

    def errors(values):
        return {name: relative(without_key_bias(name, values[name]), without_key_bias(name, exact[name]))
                for name in exact}

    def typical(of):
        return (sum(error**2 for error in of.values()) / len(of)) ** 0.5

    our_errors, scale = errors(ours), typical(errors(theirs))
    assert typical(our_errors) < 2.5 * scale + epsilon
    outliers = {name: error for name, error in our_errors.items() if not error < 6 * scale + 2 * epsilon}
    assert not outliers, (scale, outliers)


def test_label_smoothing_over_few_valid_targets(tmp_path):
    section = torch_models.model_section("gpt")
    config = tool.write_config(tmp_path, section, training={"label_smoothing": 0.1, "max_steps": 1})
    model = random_model(section)
    tokens, targets = random_batch(section, 16)
    targets[1:] = -100
    targets[0, 3:] = -100
    ours = tool.gradients(config, model, tokens, targets)
    logits = model(tokens)
    loss = torch_models.loss_of(model, tokens, targets, 0.1)
    loss.backward()
    compare(ours, model, logits, loss, 1e-5)
