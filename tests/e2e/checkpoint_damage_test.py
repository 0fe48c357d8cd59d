"""Truncated and flipped bytes in every file of a checkpoint: a resume falls back with a warning that names the file,
or ends with 5 when no good one is left; it never begins at step 0 by itself."""

import pathlib
import random
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from faults import checkpoints, contents, saved_steps, synchronous  # noqa: E402
from mini import losses, param_hash, train, trainctl  # noqa: E402

CONFIG = dict(training__max_steps=20, checkpoint__interval=10)
MORE = dict(training__max_steps=24, checkpoint__interval=10, lr_scheduler__type="constant",
            lr_scheduler__min_learning_rate=None)
FIRST = {**MORE, **CONFIG}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of 20 steps, and the hash of 24."""
    folder = tmp_path_factory.mktemp("trained")
    train(folder, synchronous(**FIRST))
    longer = tmp_path_factory.mktemp("longer") / "copy"
    shutil.copytree(folder, longer)
    return folder, param_hash(train(longer, synchronous(**MORE), "--print-param-hash"))


def files_of(folder, step=20):
    return sorted(p.name for p in (checkpoints(folder) / f"step-{step}").iterdir())


def flip(path, random_source):
    data = bytearray(path.read_bytes())
    data[random_source.randrange(len(data))] ^= 1 << random_source.randrange(8)
    path.write_bytes(data)


def cut(path, random_source):
    path.write_bytes(path.read_bytes()[:random_source.randrange(path.stat().st_size)])


def grow(path, random_source):
    path.write_bytes(path.read_bytes() + random_source.randbytes(1 + random_source.randrange(100)))


def remove(path, random_source):
    path.unlink()


def empty(path, random_source):
    path.write_bytes(b"")


DAMAGE = [flip, cut, grow, remove, empty]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_any_file_of_the_newest_is_named_and_passed_over(tmp_path, trained, damage):
    folder, gold_hash = trained
    random_source = random.Random(damage.__name__)
    for name in files_of(folder):
        copy = tmp_path / name
        shutil.copytree(folder, copy)
        damage(checkpoints(copy) / "step-20" / name, random_source)
        before = contents(checkpoints(copy) / "step-10")
        found = trainctl("checkpoint", "verify", "runs/mini", cwd=copy)
        assert found.returncode == 5 and "step-20" in found.stderr, found.stderr
        named = "manifest.json" if name == "COMPLETE" and damage in (flip, cut, grow, empty) else name
        assert named in found.stderr and found.stdout.count("ok ") == 1
        done = train(copy, synchronous(**MORE), "--print-param-hash")
        warning = [line for line in done.stderr.splitlines() if "passed over" in line]
        assert len(warning) == 1 and "step-20" in warning[0] and named in warning[0], done.stderr
        assert "at step 10" in done.stderr and param_hash(done) == gold_hash
        assert contents(checkpoints(copy) / "step-10") == before or 10 not in saved_steps(copy)


@pytest.mark.parametrize("damage", DAMAGE)
def test_with_every_checkpoint_damaged_nothing_begins_anew(tmp_path, trained, damage):
    random_source = random.Random(damage.__name__)
    for number in range(3):
        copy = tmp_path / str(number)
        shutil.copytree(trained[0], copy)
        before = losses(copy)
        for step in (10, 20):
            damage(checkpoints(copy) / f"step-{step}" / random_source.choice(files_of(copy, step)), random_source)
        done = train(copy, synchronous(**MORE), expect=5)
        assert done.stderr.count("trainctl: error:") == 1 and "--resume never" in done.stderr
        assert done.stderr.count("passed over") == 2 and losses(copy) == before
        listed = trainctl("checkpoint", "list", "--verify", "runs/mini", cwd=copy)
        assert listed.returncode == 0 and "none of them can be resumed from" in listed.stdout


def test_a_damaged_one_that_is_named_is_refused(tmp_path, trained):
    shutil.copytree(trained[0], tmp_path / "copy")
    flip(checkpoints(tmp_path / "copy") / "step-20/model.safetensors", random.Random(5))
    done = train(tmp_path / "copy", synchronous(**{**MORE, "run__name": "next"}), "--resume",
                 "runs/mini/checkpoints/step-20", expect=5)
    assert "model.safetensors" in done.stderr and not (tmp_path / "copy/runs/next").exists()
