"""trainctl checkpoint list, inspect, verify, diff, prune and export-weights."""

import json
import os
import pathlib
import re
import shutil
import sys
import time

import pytest
import safetensors.torch
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from faults import Running, checkpoints, contents, saved_steps, synchronous  # noqa: E402
from mini import config_with, strict_json, train, trainctl  # noqa: E402

CONFIG = dict(checkpoint__interval=5, checkpoint__keep_latest=10, validation__interval=10)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    train(folder, synchronous(**CONFIG))
    assert saved_steps(folder) == [5, 10, 15, 20]
    return folder


@pytest.fixture
def run(tmp_path, original):
    """A copy of a run of 20 steps with checkpoints at 5, 10, 15 and 20."""
    shutil.copytree(original / "runs", tmp_path / "runs")
    return tmp_path


def tool(folder, *arguments, expect=0):
    done = trainctl("checkpoint", *arguments, cwd=folder)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    if expect > 1:
        assert done.stderr.count("trainctl: error:") == 1 and "defect" not in done.stderr, done.stderr
    return done


def answer(folder, *arguments, expect=0):
    return strict_json(tool(folder, *arguments, "--json", expect=expect).stdout)


def damage(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)


def weights(folder, step=20):
    found = sorted((checkpoints(folder) / f"step-{step}").glob("model*.safetensors"))
    return {name: tensor for path in found for name, tensor in safetensors.torch.load_file(path).items()}


# list

def test_list_shows_steps_sizes_losses_and_what_a_resume_takes(run):
    listed = answer(run, "list", "runs/mini")
    assert [one["step"] for one in listed["checkpoints"]] == [5, 10, 15, 20]
    assert [one["resume"] for one in listed["checkpoints"]] == [False, False, False, True]
    assert {one["state"] for one in listed["checkpoints"]} == {"complete"} and listed["resume_step"] == 20
    for one in listed["checkpoints"]:
        assert one["bytes"] == sum(p.stat().st_size for p in pathlib.Path(run, one["path"]).iterdir())
        assert abs(one["modified"] - time.time()) < 3600 * 24
    assert listed["checkpoints"][3]["validation_loss"] > 0
    text = tool(run, "list", "runs/mini").stdout
    assert "4 checkpoints" in text and text.count("a resume takes this one") == 1
    rows = [line for line in text.splitlines() if "complete" in line]
    assert len({line.index("complete") for line in rows}) == 1
    ageless = lambda shown: re.sub(r"[\d.]+s", "", shown)
    assert ageless(tool(run, "list", "runs/mini/checkpoints").stdout).split() == ageless(text).split()
    one = tool(run, "list", "runs/mini/checkpoints/step-10").stdout
    assert "1 checkpoint," in one and "resume" not in one


def test_list_tells_damaged_ones_and_leftovers(run):
    folder = checkpoints(run)
    (folder / "step-15/COMPLETE").unlink()
    with open(folder / "step-20/model.safetensors", "ab") as file:
        file.write(b"x")
    (folder / "step-25.partial-1").mkdir()
    (folder / "step-5.old-1").mkdir()
    listed = answer(run, "list", "runs/mini")
    assert [one["state"] for one in listed["checkpoints"]] == ["complete", "complete", "incomplete", "damaged"]
    assert listed["resume_step"] == 10 and "model.safetensors" in listed["checkpoints"][3]["problems"][0]
    assert [one["kind"] for one in listed["leftovers"]] == ["partial", "old"]
    text = tool(run, "list", "runs/mini").stdout
    assert "step-25.partial-1" in text and "moved aside: step-5.old-1" in text and "COMPLETE is missing" in text


def test_list_finds_flipped_bytes_only_when_asked_to_read_them(run):
    damage(checkpoints(run) / "step-20/optimizer.safetensors")
    assert answer(run, "list", "runs/mini")["resume_step"] == 20
    listed = answer(run, "list", "runs/mini", "--verify")
    assert listed["resume_step"] == 15 and "optimizer.safetensors" in listed["checkpoints"][3]["problems"][0]


def test_list_of_a_run_without_any(tmp_path):
    (tmp_path / "runs/mini/checkpoints").mkdir(parents=True)
    assert "0 checkpoints" in tool(tmp_path, "list", "runs/mini").stdout
    assert answer(tmp_path, "list", "runs/mini")["resume_step"] is None


# inspect

def test_inspect_shows_tensors_state_and_config(run):
    seen = answer(run, "inspect", "runs/mini")
    assert seen["step"] == 20 and seen["complete"] and seen["config"]["model"]["d_model"] == 16
    assert seen["state"]["tokens"] > 0 and "config" not in seen["state"]
    expected = weights(run)
    assert {t["name"]: (t["type"], t["shape"], t["bytes"]) for t in seen["tensors"]} == {
        name: ("F32", list(t.shape), t.numel() * 4) for name, t in expected.items()}
    assert {f["file"] for f in seen["files"]} == {
        p.name for p in (checkpoints(run) / "step-20").iterdir()} - {"manifest.json", "COMPLETE"}
    text = tool(run, "inspect", "runs/mini/checkpoints/step-10").stdout
    for word in ("step-10", "d_model", "grad_scaler", "xxh3", *expected):
        assert word in text


def test_inspect_with_globs_and_statistics(run):
    rows = answer(run, "inspect", "runs/mini", "--tensors", "*.exp_avg", "--tensors", "*final*", "--stats")["tensors"]
    assert {row["part"] for row in rows} == {"model", "optimizer"}
    optimizer = safetensors.torch.load_file(next((checkpoints(run) / "step-20").glob("optimizer*.safetensors")))
    row = next(row for row in rows if row["name"].endswith(".exp_avg"))
    values = optimizer[row["name"]].double()
    assert row["min"] == values.min().item() and row["max"] == values.max().item()
    assert row["norm"] == pytest.approx(values.norm().item()) and row["nan"] == 0
    done = tool(run, "inspect", "runs/mini", "--tensors", "nothing*", expect=2)
    assert "nothing*" in done.stderr


def test_inspect_shows_what_can_be_shown_of_a_damaged_one(run):
    (checkpoints(run) / "step-20/optimizer.safetensors").unlink()
    done = tool(run, "inspect", "runs/mini/checkpoints/step-20", expect=5)
    assert "damaged" in done.stdout and "d_model" in done.stdout and "optimizer.safetensors" in done.stderr
    assert "at" not in tool(run, "inspect", "runs/mini").stdout.split("\n")[0].split("step-15")[1]


# verify

def test_verify_reads_every_byte(run):
    done = tool(run, "verify", "runs/mini")
    assert done.stdout.count("ok ") == 4
    damage(checkpoints(run) / "step-10/state.json")
    done = tool(run, "verify", "runs/mini", expect=5)
    assert "step-10: state.json" in done.stdout and "state.json" in done.stderr and done.stdout.count("ok ") == 3
    assert tool(run, "verify", "runs/mini", "--newest").stdout.count("ok ") == 1
    tool(run, "verify", "runs/mini/checkpoints/step-20")
    tool(run, "verify", "runs/mini/checkpoints/step-10", expect=5)
    told = answer(run, "verify", "runs/mini", expect=5)
    assert not told["ok"] and [one["ok"] for one in told["checkpoints"]] == [True, False, True, True]


def test_verify_names_a_moved_step_and_unlisted_files(run):
    shutil.copytree(checkpoints(run) / "step-10", checkpoints(run) / "step-12")
    (checkpoints(run) / "step-20/notes.txt").write_text("mine")
    done = tool(run, "verify", "runs/mini", expect=5)
    assert "step-12" in done.stderr and "step 10" in done.stderr and "notes.txt is not in the manifest" in done.stdout
    elsewhere = run / "copied"
    shutil.copytree(checkpoints(run) / "step-10", elsewhere)
    tool(run, "verify", "copied")


def test_verify_of_a_run_without_checkpoints(tmp_path):
    (tmp_path / "runs/mini").mkdir(parents=True)
    assert "no checkpoint" in tool(tmp_path, "verify", "runs/mini", expect=5).stderr


# diff

def test_diff_of_equal_runs(run):
    shutil.copytree(run / "runs/mini", run / "runs/other")
    done = tool(run, "diff", "runs/mini", "runs/other")
    assert "equal" in done.stdout and "bitwise equal" in done.stdout
    assert answer(run, "diff", "runs/mini", "runs/mini/checkpoints/step-20")["equal"]


def test_diff_names_config_state_and_tensors(run):
    train(run, synchronous(**{**CONFIG, "run__name": "other", "optimizer__learning_rate": 5e-4}))
    found = answer(run, "diff", "runs/mini", "runs/other", expect=1)
    values = {one["key"]: one for one in found["values"]}
    assert values["optimizer.learning_rate"]["left"] == 1e-3 and values["optimizer.learning_rate"]["counted"]
    assert not values["run.name"]["counted"]
    a, b = weights(run), {}
    for path in (run / "runs/other/checkpoints/step-20").glob("model*.safetensors"):
        b.update(safetensors.torch.load_file(path))
    for one in found["tensors"]:
        if one["part"] == "model":
            x, y = a[one["name"]].double(), b[one["name"]].double()
            assert one["max_abs"] == (x - y).abs().max().item()
            assert one["relative"] == pytest.approx(((x - y).norm() / x.norm()).item(), rel=1e-9)
    text = tool(run, "diff", "runs/mini", "runs/other", expect=1).stdout
    assert "optimizer.learning_rate" in text and text.rstrip().splitlines()[-1].startswith("different")
    tool(run, "diff", "runs/mini", "runs/other", "--only", "model", "--rtol", "1")
    tool(run, "diff", "runs/mini", "runs/other", "--only", "config", expect=1)


def test_diff_of_another_model_names_missing_and_reshaped_tensors(run):
    train(run, config_with(run__name="wide", model__d_ff=32, model__n_layers=2, checkpoint__interval=0))
    found = answer(run, "diff", "runs/mini", "runs/wide", expect=1)
    assert any("only_in" in one for one in found["tensors"]) and any("mismatch" in one for one in found["tensors"])
    text = tool(run, "diff", "runs/mini", "runs/wide", expect=1).stdout
    assert "only in runs/wide" in text and "F32 [64, 16] against F32 [32, 16]" in text


def test_diff_refuses_damaged_ones(run):
    damage(checkpoints(run) / "step-10/model.safetensors")
    done = tool(run, "diff", "runs/mini", "runs/mini/checkpoints/step-10", expect=5)
    assert "step-10: model.safetensors" in done.stderr


# prune

def test_prune_only_says_what_it_would_do_until_yes(run):
    before = contents(run)
    done = tool(run, "prune", "runs/mini", "--keep-latest", "1")
    assert done.stdout.count("would go") == 3 and "--yes" in done.stdout and contents(run) == before
    done = tool(run, "prune", "runs/mini", "--keep-latest", "1", "--yes")
    assert "removed 3 checkpoints" in done.stdout and saved_steps(run) == [20]
    assert sorted(p.name for p in checkpoints(run).iterdir()) == ["step-20"] and not (run / "runs/mini/.lock").exists()


@pytest.mark.parametrize("rules,left", [
    (["--keep-latest", "2"], [15, 20]), (["--keep-every", "10"], [10, 20]), (["--before", "15"], [15, 20]),
    (["--before", "11", "--keep-every", "10"], [10, 15, 20]), (["--keep-latest", "2", "--keep-every", "10"], [10, 15, 20]),
    (["--before", "1000"], [20]), (["--keep-latest", "9"], [5, 10, 15, 20])])
def test_prune_rules(run, rules, left):
    told = answer(run, "prune", "runs/mini", *rules, "--yes")
    assert saved_steps(run) == left and [one["step"] for one in told["checkpoints"] if not one["remove"]] == left


def test_prune_keeps_the_newest_that_is_good(run):
    damage(checkpoints(run) / "step-20/model.safetensors")
    done = tool(run, "prune", "runs/mini", "--keep-latest", "1", "--yes")
    assert "damaged: not touched" in done.stdout
    assert saved_steps(run) == [15, 20]
    damage(checkpoints(run) / "step-15/model.safetensors")
    before = contents(run)
    assert "nothing is removed" in tool(run, "prune", "runs/mini", "--before", "100", "--yes", expect=5).stderr
    assert contents(run) == before


def test_prune_of_leftovers(run):
    folder = checkpoints(run)
    for name in ("step-25.partial-1", "step-3.removed-2", "step-5.old-1"):
        shutil.copytree(folder / "step-5", folder / name)
    done = tool(run, "prune", "runs/mini", "--leftovers", "--yes")
    assert "2 leftovers" in done.stdout
    assert sorted(p.name for p in folder.iterdir()) == ["step-10", "step-15", "step-20", "step-5", "step-5.old-1"]


def test_prune_keeps_off_a_run_that_trains(run):
    config = synchronous(training__max_steps=1000000, lr_scheduler={"type": "constant"}, checkpoint__interval=0,
                         validation__interval=0)
    with Running(run, config) as trains:
        trains.wait_until(lambda: (run / "runs/mini/.lock").exists())
        done = tool(run, "prune", "runs/mini", "--keep-latest", "1", "--yes", expect=2)
        assert "in use by" in done.stderr and saved_steps(run) == [5, 10, 15, 20]
        tool(run, "prune", "runs/mini", "--keep-latest", "1")
        trains.process.kill()
    tool(run, "prune", "runs/mini", "--keep-latest", "1", "--yes")


def test_prune_needs_a_rule_and_a_run(run):
    assert "--keep-latest" in tool(run, "prune", "runs/mini", expect=2).stderr
    assert "one checkpoint" in tool(run, "prune", "runs/mini/checkpoints/step-5", "--before", "9", expect=2).stderr
    tool(run, "prune", "runs/mini", "--keep-latest", "0", expect=2)


# export-weights

def test_export_is_what_the_checkpoint_holds(run):
    tool(run, "export-weights", "runs/mini", "--output", "out")
    expected = weights(run)
    found = safetensors.torch.load_file(run / "out/model.safetensors")
    assert found.keys() == expected.keys() and all(torch.equal(found[n], expected[n]) for n in found)
    with safetensors.safe_open(run / "out/model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
    tool(run, "export-weights", "runs/mini/checkpoints/step-10", "--output", "one/w.safetensors")
    earlier = weights(run, 10)
    assert all(torch.equal(t, earlier[n]) for n, t in safetensors.torch.load_file(run / "one/w.safetensors").items())


@pytest.mark.parametrize("dtype,type_", [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)])
def test_export_converts(run, dtype, type_):
    tool(run, "export-weights", "runs/mini", "--output", "out", "--dtype", dtype)
    found, expected = safetensors.torch.load_file(run / "out/model.safetensors"), weights(run)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[n], expected[n].to(type_)) for n in found)


def test_export_in_shards_with_an_index(run):
    told = answer(run, "export-weights", "runs/mini", "--output", "out", "--shard-size", "4KB")
    index = json.loads((run / "out/model.safetensors.index.json").read_text())
    expected, found = weights(run), {}
    names = sorted(set(index["weight_map"].values()))
    assert names[0] == f"model-00001-of-{len(names):05}.safetensors" and len(names) > 1
    for name in names:
        tensors = safetensors.torch.load_file(run / "out" / name)
        assert set(tensors) == {t for t, file in index["weight_map"].items() if file == name}
        assert len(tensors) == 1 or sum(t.numel() * 4 for t in tensors.values()) <= 4000
        found.update(tensors)
    assert all(torch.equal(found[n], expected[n]) for n in expected) and found.keys() == expected.keys()
    assert index["metadata"]["total_size"] == sum(t.numel() * 4 for t in expected.values())
    assert len(told["files"]) == len(names) + 1


def test_export_never_overwrites_unasked_and_leaves_no_old_shards(run):
    tool(run, "export-weights", "runs/mini", "--output", "out", "--shard-size", "4KB")
    before = contents(run / "out")
    done = tool(run, "export-weights", "runs/mini", "--output", "out", expect=2)
    assert "--force" in done.stderr and contents(run / "out") == before
    (run / "out/tokenizer.json").write_text("{}")
    tool(run, "export-weights", "runs/mini", "--output", "out", "--force")
    assert sorted(os.listdir(run / "out")) == ["model.safetensors", "tokenizer.json"]


def test_export_warns_of_values_that_fp16_cannot_hold(run):
    train(run, config_with(run__name="big", training__max_steps=1, optimizer__learning_rate=1e6,
                           lr_scheduler={"type": "constant"}, checkpoint__interval=1, validation__interval=0,
                           data__validation_fraction=0))
    done = tool(run, "export-weights", "runs/big", "--output", "out", "--dtype", "fp16")
    assert "became infinite" in done.stderr and "bf16" in done.stderr


def test_export_refuses_places_that_would_spoil_something(run):
    (run / "file").write_text("x")
    assert "is a file" in tool(run, "export-weights", "runs/mini", "--output", "file", expect=2).stderr
    done = tool(run, "export-weights", "runs/mini", "--output", "runs/mini/checkpoints/step-10", expect=2)
    assert "must stay as it is" in done.stderr
    tool(run, "export-weights", "runs/mini", "--output", "a.safetensors", "--shard-size", "1GB", expect=2)
    tool(run, "export-weights", "runs/mini", "--output", "out", "--shard-size", "0", expect=2)


# all

@pytest.mark.parametrize("action", ["list", "inspect", "verify", "prune", "export-weights"])
def test_a_folder_that_is_not_there_is_a_wrong_command_line(tmp_path, action):
    more = {"prune": ["--before", "3"], "export-weights": ["--output", "out"]}.get(action, [])
    done = tool(tmp_path, action, "runs/none", *more, expect=2)
    assert "runs/none" in done.stderr and "step-N" in done.stderr
    assert not (tmp_path / "out").exists()


def test_help_and_wrong_words():
    assert "export-weights" in trainctl("checkpoint", "--help").stdout
    for action in ("list", "inspect", "verify", "diff", "prune", "export-weights"):
        assert "--json" in trainctl("checkpoint", action, "--help").stdout
    wrong = trainctl("checkpoint", "verfy", "x")
    assert wrong.returncode == 2 and "did you mean 'verify'" in wrong.stderr
    assert trainctl("checkpoint").returncode == 2
    assert "checkpoint" in trainctl("--help").stdout
