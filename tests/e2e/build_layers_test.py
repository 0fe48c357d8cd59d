"""The layers' order of docs/design.md, section 3, checked from the includes."""

import os
import pathlib
import re

SOURCE = pathlib.Path(os.environ["TRAINCTL_SOURCE"])
SHARED = ["base", "config", "plan", "text", "report"]
# What a folder may include: what stands to its left, on its own branch.
EXECUTABLE = SHARED + ["launch", "doctor", "cli"]
ENGINE = SHARED + ["runtime", "model", "data", "parallel", "checkpoint", "train", "engine"]
CUDA = SHARED + ["runtime", "cuda"]
# Headers at a border between two link units, plain C or plain structs: both sides include them.
BORDERS = {("cli", "engine/engine_api.h"), ("runtime", "cuda/cuda_unit.h")}
TORCH_FREE = set(EXECUTABLE)
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"^(ATen|c10|torch|caffe2)/")


def sources():
    """(layer, path, includes) of every source and header of the project."""
    for root in (SOURCE / "src", SOURCE / "include" / "trainctl"):
        for path in sorted(root.rglob("*")):
            if path.suffix in (".cpp", ".h", ".cu", ".cuh"):
                yield path.relative_to(root).parts[0], path, INCLUDE.findall(path.read_text())


def allowed(layer):
    for branch in (EXECUTABLE, ENGINE, CUDA):
        if layer in branch:
            return set(branch[: branch.index(layer) + 1])
    raise AssertionError(f"folder '{layer}' is in no branch of the layers' order")


def violations(files):
    for layer, path, includes in files:
        may = allowed(layer)
        for include in includes:
            name = include.removeprefix("trainctl/")
            target = name.split("/")[0]
            is_ours = include.startswith("trainctl/") or (SOURCE / "src" / include).exists()
            if is_ours and target not in may and (layer, name) not in BORDERS:
                yield f"{path}: layer {layer} includes {include}"
            if layer in TORCH_FREE and TORCH.match(include):
                yield f"{path}: the torch-free layer {layer} includes {include}"


def test_layers_include_only_what_stands_to_their_left():
    files = list(sources())
    assert {layer for layer, _, _ in files} >= set(SHARED) | {"cli", "runtime", "model", "train", "engine"}
    assert list(violations(files)) == []


def test_the_check_sees_a_wrong_include():
    wrong = [("config", "a.cpp", ["trainctl/plan/plan.h"]), ("base", "b.h", ["ATen/ATen.h"]),
             ("cli", "c.cpp", ["trainctl/runtime/device.h"]), ("cuda", "d.cpp", ["trainctl/train/trainer.h"])]
    assert len(list(violations(wrong))) == 4


def test_no_source_includes_the_slow_umbrella_header():
    assert [str(path) for _, path, includes in sources() if "torch/torch.h" in includes] == []
