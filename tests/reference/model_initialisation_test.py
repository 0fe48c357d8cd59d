"""Initial weights: names and shapes are PyTorch's, values are distributed as the named reference's."""
import pytest
import torch

import reference_tool as tool
import torch_models

GPT = {"vocab_size": 1000, "d_model": 64, "d_ff": 256, "n_layers": 4, "max_seq_len": 64, "init_std": 0.03}
ENCODER = {"vocab_size": 1000, "d_model": 64, "d_ff": 256, "n_layers": 3, "max_seq_len": 64}
CASES = [
    pytest.param("gpt", GPT, id="gpt"),
    pytest.param("gpt", {**GPT, "tie_embeddings": False, "activation": "swiglu", "norm_order": "post",
                         "position": "rotary"}, id="gpt-untied-swiglu-post-rotary"),
    pytest.param("encoder_classifier", ENCODER, id="encoder"),
    pytest.param("encoder_classifier", {**ENCODER, "n_classes": 12, "pooling": "mean"}, id="encoder-pooled"),
]


@pytest.mark.parametrize("kind,options", CASES)
def test_initial_weights_are_distributed_as_the_reference(tmp_path, kind, options):
    section = torch_models.model_section(kind, **options)
    ours = tool.initial_weights(tool.write_config(tmp_path, section))
    torch.manual_seed(0)
    theirs = dict(torch_models.build(section).named_parameters())
    assert list(ours) == sorted(theirs)
    for name, b in theirs.items():
        a, b = ours[name], b.detach()
        assert a.shape == b.shape and a.dtype == b.dtype, name
        constant = b.numel() > 1 and bool((b == b.view(-1)[0]).all())
        if constant:
            assert torch.equal(a, b), name
            continue
        # Two samples of one distribution: moments within five standard errors of their difference.
        n, std = b.numel(), b.std().item()
        assert abs(a.mean() - b.mean()).item() < 5 * std * (2 / n) ** 0.5, name
        assert abs(a.std() / b.std() - 1).item() < 5 / n**0.5, name
        ratio = (a.abs().max() / b.abs().max()).item()
        # A uniform tensor reaches its bound, a normal one's extreme varies.
        uniform = b.abs().max().item() < 1.9 * std
        assert abs(ratio - 1) < (20 / n + 1e-3 if uniform else 0.5), name
        assert (a.abs().max().item() < 1.9 * a.std().item()) == uniform, name


def test_encoder_layers_start_equal_as_deep_copies_do(tmp_path):
    section = torch_models.model_section("encoder_classifier", **ENCODER)
    theirs = dict(torch_models.build(section).named_parameters())
    ours = tool.initial_weights(tool.write_config(tmp_path, section))
    for weights in (ours, theirs):
        for name in weights:
            if name.startswith("encoder.layers.0."):
                other = name.replace("layers.0", "layers.2")
                assert torch.equal(weights[name], weights[other]), name


def test_encoder_weights_load_into_the_pytorch_module_as_they_lie(tmp_path):
    section = torch_models.model_section("encoder_classifier")
    model = torch_models.build(section)
    model.load_state_dict(tool.initial_weights(tool.write_config(tmp_path, section)), strict=True)
