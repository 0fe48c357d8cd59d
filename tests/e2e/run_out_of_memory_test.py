"""Memory that runs out for real, on the CPU."""

import re
import resource
import sys

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests/support")
from mini import TEXT, config_with, train, trainctl, write  # noqa: E402

GIB = 1 << 30


def limited(bytes_):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))


def large(**changes):
    # Attention scores of 8 × 2 × 4096 × 4096 fp32 (1 GiB) per layer with the math back end.
    return config_with(**{"model__max_seq_len": 4096, "data__seq_len": 4096, "backend__attention": "math",
                          "training__micro_batch_size": 8, "training__global_batch_size": 16,
                          "training__max_steps": 2, "data__validation_fraction": 0.0,
                          "validation__interval": 0, **changes})


def test_a_limit_on_address_space_is_explained_with_figures_and_the_next_batch(tmp_path):
    done = train(tmp_path, large(), text=TEXT * 300, expect=1, preexec_fn=limited(5 * GIB // 2))
    error = done.stderr
    assert re.search(r"error: out of memory in step 1, (forward|backward) pass of micro-batch 1 of 2: "
                     r"\S+ [MG]iB more were asked for, \S+ [MG]iB are free of ", error), error
    assert "ulimit -v) is 2.5 GiB" in error
    for row in ("parameters ", "optimizer state ", "logits ", "activations "):
        assert re.search(rf"^    {row} *\S+ \S*B", error, re.M), (row, error)
    assert "the estimate at the start: " in error
    assert "training.micro_batch_size 4 instead of 8 (gradient_accumulation_steps 4 keeps global_batch_size at 16)" \
        in error
    assert "data.seq_len 2048 instead of 4096" in error
    assert "doctor --explain cpu-out-of-memory" in error
    assert "frame #" not in error and "defect" not in error
    # The run's own log says it too, and the suggestion really fits.
    assert "out of memory in step 1" in (tmp_path / "runs/mini/logs/run.log").read_text()


def test_the_suggested_batch_is_a_valid_config(tmp_path):
    write(tmp_path, large(), TEXT * 300)
    done = trainctl("run", "config.json", "--set", "training.micro_batch_size=4", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_model_that_cannot_be_built_is_told_apart(tmp_path):
    # 131,072 × 2,048 fp32 is 1 GiB; with gradients and state 4 GiB.
    config = config_with(model__d_model=2048, model__vocab_size=131072, model__n_heads=16)
    done = train(tmp_path, config, expect=1, preexec_fn=limited(3 * GIB))
    assert "out of memory in building the model and the optimizer" in done.stderr, done.stderr
    assert "lower model.vocab_size" in done.stderr
    assert "frame #" not in done.stderr
    assert not (tmp_path / "runs/mini/metrics.jsonl").exists()
