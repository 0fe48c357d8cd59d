"""Checkpoints written by several ranks at once: shards, failures of one rank, kills inside saves (D3, D5)."""

import contextlib
import json
import pathlib
import random
import signal
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TRAINCTL, config_with, losses, metrics, steps, write  # noqa: E402
from lone_ranks import LoneRanks  # noqa: E402
from ranks import param_hashes, start_ranks, train_ranks  # noqa: E402

SHARDED = dict(checkpoint__shard_mb=0.01, training__micro_batch_size=1, training__global_batch_size=12,
               model__n_layers=2)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("count", [2, 3])
def test_all_ranks_write_shards_and_any_number_of_ranks_goes_on(tmp_path, count):
    config = config_with(training__max_steps=10, checkpoint__interval=5, backend__deterministic=True, **SHARDED)
    gold = train_ranks(tmp_path, count, config, "--print-param-hash")
    step = tmp_path / "runs/mini/checkpoints/step-5"
    assert any(name.startswith("model-00001-of-") for name in names(step))
    assert "model.safetensors.index.json" in names(step) and "optimizer.safetensors.index.json" in names(step)
    manifest = json.loads((step / "manifest.json").read_text())
    assert sorted([*(f["file"] for f in manifest["files"]), "COMPLETE", "manifest.json"]) == names(step)
    for other in (count, 1, 4):
        again = {**config, "run": {**config["run"], "name": f"at-{other}"}}
        ranks = train_ranks(tmp_path, other, again, "--print-param-hash", "--resume", str(step))
        assert len(set(param_hashes(ranks))) == 1
        if other == count:
            assert param_hashes(ranks) == param_hashes(gold)
        expected = [line["loss"] for line in steps(tmp_path) if line["step"] > 5]
        assert losses(tmp_path, f"at-{other}") == pytest.approx(expected, rel=1e-5)


def test_one_rank_that_cannot_write_fails_the_save_for_all(tmp_path):
    config = config_with(training__max_steps=12, checkpoint__interval=5, **SHARDED)
    write(tmp_path, config)
    plain = [TRAINCTL, "run", "config.json"]
    limited = ["bash", "-c", 'ulimit -f 4; exec "$@"', "-", *plain]
    ranks = LoneRanks(tmp_path, 2, command=lambda rank: limited if rank == 1 else plain)
    assert ranks.wait() == [5, 5], ranks.text()
    text = ranks[0].stderr
    assert "rank 1: " in text and "File too large" in text and "tries again at the next interval" in text
    assert len(steps(tmp_path)) == 12
    assert names(tmp_path / "runs/mini/checkpoints") == []


def test_damage_that_only_one_rank_looks_at_is_found_by_all(tmp_path):
    # Files above a mebibyte are verified by one rank each.
    config = config_with(training__max_steps=4, training__global_batch_size=4, checkpoint__interval=2, model__d_model=256,
                         model__d_ff=1024, backend__deterministic=True)
    gold = train_ranks(tmp_path, 2, config, "--print-param-hash")
    for name in ("model.safetensors", "optimizer.safetensors"):
        path = tmp_path / "runs/mini/checkpoints/step-4" / name
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
        ranks = train_ranks(tmp_path, 2, config, "--print-param-hash")
        assert "passed over" in ranks[0].stderr and name in ranks[0].stderr
        assert param_hashes(ranks) == param_hashes(gold)


def test_ranks_that_do_not_see_one_run_folder_are_refused(tmp_path):
    config = config_with(training__global_batch_size=4)
    for host in ("a", "b"):
        (tmp_path / host).mkdir()
        write(tmp_path / host, config)
    command = [TRAINCTL, "run", "config.json"]
    ranks = LoneRanks(tmp_path, 2, command=lambda rank: ["env", "-C", str(tmp_path / "ab"[rank]), *command],
                      environments={r: {"LOCAL_RANK": "0", "GROUP_RANK": str(r)} for r in (0, 1)},
                      LOCAL_WORLD_SIZE=1, GROUP_WORLD_SIZE=2)
    assert ranks.wait() == [2, 2], ranks.text()
    text = ranks[1].stderr
    assert "not the same for all ranks" in text and str(tmp_path / "a/runs/mini") in text
    assert str(tmp_path / "b/runs/mini") in text and "share" in text
    assert not (tmp_path / "a/runs").exists()


def wait_for_training(folder, ranks):
    """Until this start of it has written a line: a rank that dies earlier leaves the others waiting for it."""
    path = folder / "runs/mini/metrics.jsonl"
    began, deadline = time.time(), time.monotonic() + 60
    while time.monotonic() < deadline and not ranks.ended():
        if path.exists() and path.stat().st_size > 0 and path.stat().st_mtime > began:
            return
        time.sleep(0.005)


@pytest.mark.parametrize("count", [2, 3])
def test_kills_of_any_rank_inside_saves_never_spoil_the_run(tmp_path, count):
    config = config_with(training__max_steps=150, checkpoint__interval=1, checkpoint__keep_latest=2,
                         model__dropout=0.1, backend__deterministic=True, **{**SHARDED, "model__n_layers": 1})
    gold, torn = tmp_path / "gold", tmp_path / "torn"
    gold.mkdir(), torn.mkdir()
    expected = param_hashes(train_ranks(gold, count, config, "--print-param-hash"))
    rng = random.Random(count)
    for _ in range(7):
        ranks = start_ranks(torn, count, config)
        wait_for_training(torn, ranks)
        time.sleep(rng.uniform(0, 0.5))
        for victim in rng.sample(range(count), rng.choice([1, count])):
            if not ranks.ended():
                with contextlib.suppress(AssertionError, ProcessLookupError):  # it has ended in between
                    ranks[victim].send_signal(signal.SIGKILL)
        ranks.wait(60)
        assert "passed over" not in ranks[0].stderr, ranks.text()
    done = train_ranks(torn, count, config, "--print-param-hash")
    assert param_hashes(done) == expected
    assert losses(torn) == losses(gold)
    found = names(torn / "runs/mini/checkpoints")
    assert len(found) == 2 and "step-150" in found


def test_a_stop_in_the_middle_of_saves_leaves_one_complete_checkpoint_at_the_stop_step(tmp_path):
    config = config_with(training__max_steps=100000, checkpoint__interval=1, lr_scheduler__type="constant",
                         lr_scheduler__min_learning_rate=None, **SHARDED)
    ranks = start_ranks(tmp_path, 2, config)
    path = tmp_path / "runs/mini/metrics.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not path.exists() or len(steps(tmp_path)) < 5):
        time.sleep(0.01)
    ranks[1].send_signal(signal.SIGTERM)
    assert ranks.wait(60) == 75, ranks.text()
    last = steps(tmp_path)[-1]["step"]
    found = names(tmp_path / "runs/mini/checkpoints")
    assert f"step-{last}" in found and not any("." in name for name in found)
    assert [line["checkpoint_step"] for line in metrics(tmp_path) if "checkpoint_step" in line][-1] == last
