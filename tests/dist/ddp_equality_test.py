"""N ranks give the numbers of one rank on the same global batch (the loss contract of docs/design.md; B2, B3)."""

import pathlib
import sys

import pytest
from safetensors.numpy import load_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TEXT, config_with, losses, metrics, param_hash, steps, train  # noqa: E402
from ranks import param_hashes, train_ranks  # noqa: E402

LONG_TEXT = TEXT * 4
CLASSIFIER = dict(model={"type": "encoder_classifier", "vocab_size": 64, "d_model": 16, "n_layers": 2, "n_heads": 2,
                         "d_ff": 32, "max_seq_len": 8, "dropout": 0.0},
                  data={"format": "synthetic", "seq_len": 8, "synthetic_sequences": 53, "validation_fraction": 0.2})
POOLED = {**CLASSIFIER, "model": {**CLASSIFIER["model"], "pooling": "mean", "n_classes": 7}}
MODELS = {
    "gpt_tied": {},
    "gpt_untied": dict(model__tie_embeddings=False, model__n_layers=2),
    "gpt_fused_blocks": dict(model__d_model=32, model__d_ff=64),
    "classifier": CLASSIFIER,
    "classifier_pooled": POOLED,
}


def single_and_ranks(tmp_path, count, text=LONG_TEXT, **changes):
    """The same config on one rank and on `count`, with the micro-batch of each the same."""
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir(), many.mkdir()
    config = config_with(**changes)
    train(one, config, text=text)
    (many / "data.txt").write_text(text)
    ranks = train_ranks(many, count, config, "--print-param-hash", text_file=False)
    assert len(set(param_hashes(ranks))) == 1 and len(param_hashes(ranks)) == count
    return one, many


def assert_equal_runs(one, many, tolerance=1e-6):
    for key in ("loss", "grad_norm", "learning_rate", "tokens"):
        a, b = [line[key] for line in steps(one)], [line[key] for line in steps(many)]
        assert b == pytest.approx(a, rel=3 * tolerance), key
    a = [(line["validation_loss"], line["validation_tokens"]) for line in metrics(one) if "validation_loss" in line]
    b = [(line["validation_loss"], line["validation_tokens"]) for line in metrics(many) if "validation_loss" in line]
    assert [x[0] for x in a] == pytest.approx([x[0] for x in b], rel=3 * tolerance) and a
    assert [x[1] for x in a] == [x[1] for x in b]
    assert_equal_weights(one, many, tolerance)


def assert_equal_weights(one, many, tolerance=1e-6):
    a, b = (load_file(folder / "runs/mini/model.safetensors") for folder in (one, many))
    assert a.keys() == b.keys()
    for name in a:
        x, y = a[name].astype("float64"), b[name].astype("float64")
        if "qkv.bias" in name or "in_proj_bias" in name:  # keys' biases have no gradient but for rounding
            width = x.shape[0] // 3
            x, y = (v[[*range(width), *range(2 * width, 3 * width)]] for v in (x, y))
        error = ((x - y) ** 2).sum() ** 0.5 / max((x ** 2).sum() ** 0.5, 1e-30)
        assert error < tolerance, f"{name}: {error}"


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("model", MODELS)
def test_ranks_equal_one_rank(tmp_path, model, count):
    changes = {**MODELS[model], "training__micro_batch_size": 1, "training__global_batch_size": 12}
    assert_equal_runs(*single_and_ranks(tmp_path, count, **changes))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_with_accumulation_of_larger_micro_batches(tmp_path, count):
    changes = {"training__micro_batch_size": 2, "training__global_batch_size": 24, "model__n_layers": 2}
    assert_equal_runs(*single_and_ranks(tmp_path, count, **changes))


@pytest.mark.parametrize("count", [2, 4])
def test_last_window_of_an_epoch_leaves_ranks_without_samples(tmp_path, count):
    # An epoch ends with a step of one window, and one of the shorter window.
    changes = {"training__micro_batch_size": 1, "training__global_batch_size": 4, "training__max_steps": 30,
               "data__validation": ["data.txt"]}
    one, many = single_and_ranks(tmp_path, count, text=TEXT + "and so on", **changes)
    assert_equal_runs(one, many)
    tokens = [line["tokens"] for line in steps(one)]
    assert len({b - a for a, b in zip([0, *tokens], tokens)}) > 2  # steps of several sizes were among them


def test_fewer_samples_than_ranks(tmp_path):
    changes = {"training__micro_batch_size": 1, "training__global_batch_size": 4, "data__validation_fraction": 0.3}
    assert_equal_runs(*single_and_ranks(tmp_path, 4, text="Only a few words here.", **changes))


def test_small_buckets_change_nothing(tmp_path):
    changes = {"training__micro_batch_size": 1, "training__global_batch_size": 4, "parallel__bucket_mb": 0.001}
    assert_equal_runs(*single_and_ranks(tmp_path, 2, **changes))


def test_looking_for_unused_parameters_changes_nothing(tmp_path):
    changes = {"training__micro_batch_size": 1, "training__global_batch_size": 4,
               "parallel__find_unused_parameters": True}
    assert_equal_runs(*single_and_ranks(tmp_path, 2, **changes))


def test_clipping_uses_the_norm_over_all_ranks(tmp_path):
    changes = {"training__micro_batch_size": 1, "training__global_batch_size": 4, "training__max_grad_norm": 0.1}
    one, many = single_and_ranks(tmp_path, 2, **changes)
    assert_equal_runs(one, many)
    assert all(line["grad_norm"] > 0.1 for line in steps(many))


def test_label_smoothing_and_another_optimizer(tmp_path):
    changes = {"training__micro_batch_size": 1, "training__global_batch_size": 4, "training__label_smoothing": 0.1,
               "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9}}
    assert_equal_runs(*single_and_ranks(tmp_path, 2, **changes))


@pytest.mark.parametrize("compression", ["bf16", "fp16"])
def test_compressed_gradients_are_close_and_the_ranks_stay_equal(tmp_path, compression):
    changes = {"training__micro_batch_size": 1, "training__global_batch_size": 4,
               "parallel__compression": compression}
    one, many = single_and_ranks(tmp_path, 2, **changes)
    assert losses(many) == pytest.approx(losses(one), rel=2e-3)
    assert losses(many) != losses(one)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_mixed_precision(tmp_path, dtype):
    changes = {"training__micro_batch_size": 1, "training__global_batch_size": 4, "precision__dtype": dtype}
    one, many = single_and_ranks(tmp_path, 2, **changes)
    assert losses(many) == pytest.approx(losses(one), rel=1e-3)
    assert [line.get("loss_scale") for line in steps(one)] == [line.get("loss_scale") for line in steps(many)]


def test_each_rank_drops_other_values(tmp_path):
    # Every window of this text is the same: with equal masks two ranks would be one rank with half the batch.
    config = dict(model__dropout=0.5, training__micro_batch_size=1, training__max_steps=3)
    text = "a" * 200
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir(), many.mkdir()
    train(one, config_with(training__global_batch_size=1, **config), text=text)
    (many / "data.txt").write_text(text)
    train_ranks(many, 2, config_with(training__global_batch_size=2, **config), text_file=False)
    assert losses(one)[0] == pytest.approx(losses(many)[0], rel=0.3)
    assert losses(one)[0] != pytest.approx(losses(many)[0], rel=1e-5)


def test_two_runs_of_three_ranks_are_bitwise_equal(tmp_path):
    config = config_with(training__micro_batch_size=1, training__global_batch_size=6, model__n_layers=2,
                         parallel__bucket_mb=0.01)
    hashes = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        hashes.append(param_hashes(train_ranks(tmp_path / name, 3, config, "--print-param-hash")))
    assert hashes[0] == hashes[1]
    assert losses(tmp_path / "a") == losses(tmp_path / "b")


def test_world_of_one_is_a_single_process(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir(), many.mkdir()
    config = config_with()
    single = param_hash(train(one, config, "--print-param-hash"))
    ranks = train_ranks(many, 1, config, "--print-param-hash")
    assert param_hashes(ranks) == [single] and losses(one) == losses(many)


def test_resume_at_another_number_of_ranks_continues_with_the_same_samples(tmp_path):
    changes = dict(training__micro_batch_size=1, training__global_batch_size=12, lr_scheduler={"type": "constant"})
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir(), many.mkdir()
    train(one, config_with(training__max_steps=30, **changes))
    for count, last in ((2, 10), (3, 20), (1, 25), (4, 30)):
        ranks = train_ranks(many, count, config_with(training__max_steps=last, **changes))
        assert count == 2 or "ranks a run made with" in ranks[0].stderr
    assert losses(many) == pytest.approx(losses(one), rel=1e-5)
    assert_equal_weights(one, many, 1e-5)
