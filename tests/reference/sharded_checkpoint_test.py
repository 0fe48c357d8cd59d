"""The Python library reads a sharded checkpoint as it lies, through its index."""

import json
import pathlib
import sys

import numpy
from safetensors import safe_open
from safetensors.numpy import load_file

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import config_with, train  # noqa: E402


def load_through_index(folder, stem):
    """As transformers does: the index names the shards, each is opened and holds what the index says."""
    index = json.loads((folder / f"{stem}.safetensors.index.json").read_text())
    tensors = {}
    for shard in sorted(set(index["weight_map"].values())):
        with safe_open(folder / shard, framework="numpy") as file:
            assert file.metadata()["format"] == "pt"
            for name in file.keys():
                assert index["weight_map"][name] == shard
                tensors[name] = file.get_tensor(name)
    assert tensors.keys() == index["weight_map"].keys()
    assert sum(t.nbytes for t in tensors.values()) == index["metadata"]["total_size"]
    return tensors


def test_shards_read_through_the_index_are_the_single_files(tmp_path):
    config = config_with(model__n_layers=2, training__max_steps=5, checkpoint__interval=5)
    for name, shard_mb in (("whole", 2048), ("shards", 0.01)):
        train(tmp_path, {**config, "run": {**config["run"], "name": name},
                         "checkpoint": {"interval": 5, "keep_latest": 3, "shard_mb": shard_mb}})
    whole, shards = (tmp_path / "runs" / name / "checkpoints/step-5" for name in ("whole", "shards"))
    for stem in ("model", "optimizer"):
        expected = load_file(whole / f"{stem}.safetensors")
        found = load_through_index(shards, stem)
        assert expected.keys() == found.keys()
        assert all(numpy.array_equal(expected[name], found[name]) for name in expected)
        sizes = [path.stat().st_size for path in shards.glob(f"{stem}-*.safetensors")]
        assert len(sizes) > 2
