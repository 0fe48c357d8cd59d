"""Death at every kind of moment inside a save, also with the loss of everything that was not synced: a checkpoint is
there whole or not at all, and the run continues bitwise."""

import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from faults import checkpoints, faulty, leftovers, saved_steps, synchronous  # noqa: E402
from mini import losses, param_hash, train, trainctl, write  # noqa: E402

CONFIG = dict(training__max_steps=4, checkpoint__interval=1, checkpoint__keep_latest=2, validation__interval=0,
              lr_scheduler__warmup_steps=1)
POINTS = 12  # of death, spread evenly over the calls of a run


@pytest.fixture(scope="module")
def gold(tmp_path_factory):
    """Hash and losses of the run, and its calls in the checkpoints' folder, in order."""
    folder = tmp_path_factory.mktemp("gold")
    log = folder / "calls"
    done = train(folder, synchronous(**CONFIG), "--print-param-hash", env=faulty(f"{folder}*", "", log))
    calls = [line.split() for line in log.read_text().splitlines()]
    return param_hash(done), losses(folder), calls


@pytest.mark.parametrize("way", ["kill", "lose"])
@pytest.mark.parametrize("point", range(POINTS))
def test_death_inside_a_save(tmp_path, gold, way, point):
    calls = sum("/checkpoints" in " ".join(call) for call in gold[2])
    at = int((point + 0.5) / POINTS * calls) + (way == "lose")
    config = synchronous(**CONFIG)
    write(tmp_path, config)
    died = trainctl("run", "config.json", cwd=tmp_path, env=faulty("*/checkpoints*", f"any:{way}:{at}"))
    assert died.returncode == -9, died.stderr
    verified = trainctl("checkpoint", "verify", "runs/mini", cwd=tmp_path)
    whole = saved_steps(tmp_path)
    assert verified.returncode == (0 if whole else 5), verified.stdout + verified.stderr
    assert "DAMAGED" not in verified.stdout
    again = train(tmp_path, config, "--print-param-hash")
    assert param_hash(again) == gold[0] and losses(tmp_path) == gold[1]
    assert ("resuming from" in again.stderr) == bool(whole), again.stderr
    assert not whole or f"at step {whole[-1]}" in again.stderr
    assert leftovers(tmp_path) == []


def test_removal_waits_until_the_newer_one_is_durable_and_the_marker_comes_last(gold):
    check_order(gold[2])


def test_the_check_of_the_order_sees_what_is_wrong(gold):
    calls = gold[2]
    folder = next(c[1] for c in calls if c[0] == "mkdir" and ".partial" in c[1])
    broken = {
        "no file is synced": [c for c in calls if not (c[0] == "fsync" and ".safetensors" in c[1])],
        "no folder is synced": [c for c in calls if not (c[0] == "fsync" and c[1] == folder)],
        "the run's folder is not synced": [c for c in calls if not (c[0] == "fsync" and c[1].endswith("/runs/mini"))],
        "checkpoints/ is not synced": [c for c in calls if not (c[0] == "fsync" and c[1].endswith("/checkpoints"))],
        "written after the marker": None,
    }
    rename = next(i for i, c in enumerate(calls) if c[0] == "rename" and re.search(r"/step-\d+$", c[2]))
    broken["written after the marker"] = [*calls[:rename], ["write", folder + "/late"], *calls[rename:]]
    for what, log in broken.items():
        with pytest.raises(AssertionError):
            check_order(log)
            print(f"not seen: {what}")


def parent(path):
    return path.rpartition("/")[0]


def check_order(calls):
    """Replays the calls and keeps account of what no fsync covers yet."""
    data, names, marked = set(), {}, set()  # files with unsynced data; unsynced names by folder; folders with marker
    for call, path, *other in calls:
        if call == "mkdir":
            names.setdefault(parent(path), set()).add(path)
        elif call == "fsync":
            data.discard(path)
            names.pop(path, None)
        elif "/checkpoints/" not in path:  # metrics and logs are synced when a checkpoint needs them
            continue
        elif call == "write":
            if path.endswith("/COMPLETE"):
                marked.add(parent(path))
            assert parent(path) not in marked or path.endswith("/COMPLETE"), f"{path} is written after the marker"
            data.add(path)
            names.setdefault(parent(path), set()).add(path)
        elif call == "rename":
            check_rename(path, other[0], data, names, marked)
    assert not data and not any(names.values()), (data, names)


def check_rename(source, target, data, names, marked):
    assert source not in data, f"{source} is renamed before its data are synced"
    if target.endswith("/COMPLETE"):
        marked.add(parent(target))
    if re.search(r"/step-\d+$", target):
        unsynced = [p for p in data if p.startswith(source + "/")] + [p for f in names if f == source for p in names[f]]
        assert not unsynced, f"{source} gets its name while {unsynced} are not synced"
        assert source in marked, f"{source} gets its name without a marker"
    if ".removed-" in target:
        newer = [p for p in names.get(parent(source), ()) if re.search(r"/step-\d+$", p)]
        assert not newer, f"{source} goes before {newer} are durable"
        return  # that a removal is not synced is the harmless case
    names.get(parent(source), set()).discard(source)
    names.setdefault(parent(target), set()).add(target)


def test_a_checkpoint_that_is_gone_leaves_nothing(gold, tmp_path):
    train(tmp_path, synchronous(**CONFIG))
    assert saved_steps(tmp_path) == [3, 4]
    assert sorted(p.name for p in checkpoints(tmp_path).iterdir()) == ["step-3", "step-4"]
