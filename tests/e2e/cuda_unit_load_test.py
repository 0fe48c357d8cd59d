"""The CUDA unit: its whole set of libraries is there and registers without a GPU; a unit of another
build, or one whose libraries are missing, is refused with the cause and the cure."""

import json
import os
import pathlib
import re
import subprocess

import pytest

BIN = pathlib.Path(os.environ["TRAINCTL_BIN"])
UNIT = BIN / "libtrainctl_cuda.so"
PROBE = BIN / "cuda_unit_probe"
pytestmark = pytest.mark.skipif(not UNIT.exists(), reason="built without the CUDA unit")


def probe(*args, env=None):
    return subprocess.run([str(PROBE), *map(str, args)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **(env or {})})


@pytest.fixture(scope="module")
def facts():
    done = probe()
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_library_of_the_unit_is_found():
    listed = subprocess.run(["ldd", str(UNIT)], capture_output=True, text=True, check=True).stdout
    assert "not found" not in listed, listed
    for library in ("libtorch_cuda.so", "libc10_cuda.so", "libcudart.so", "libcudnn.so", "libnccl.so", "libcublas.so"):
        assert library in listed


def test_the_unit_itself_links_neither_nccl_nor_cudnn():
    # LibTorch brings its own; an older one in LD_LIBRARY_PATH must not come first through us.
    needed = subprocess.run(["readelf", "-d", str(UNIT)], capture_output=True, text=True, check=True).stdout
    own = re.findall(r"\(NEEDED\).*\[(.*)\]", needed)
    assert "libtorch_cuda.so" in own
    assert not [name for name in own if "nccl" in name or "cudnn" in name], own


def test_cuda_registers(facts):
    assert facts["cuda_hooks"] and facts["cuda_device_guard"]
    assert facts["cuda_runtime"] >= 12000


def test_cudnn_answers_with_its_version(facts):
    assert re.fullmatch(r"9\.\d+\.\d+", facts["cudnn"])


def test_nccl_answers_and_its_process_group_is_in(facts):
    assert re.fullmatch(r"2\.\d+\.\d+", facts["nccl"])
    assert facts["nccl_group"] == "created" or "no GPUs found" in facts["nccl_group"]


def test_opening_without_a_gpu_names_cause_and_cure(facts):
    if facts["gpus"] > 0:
        pytest.skip("this machine has a GPU")
    done = probe("--open", UNIT)
    assert done.returncode == 3
    assert re.search(r"CUDA error \d+, cudaError\w+", done.stdout)
    assert "driver" in done.stdout


def test_a_unit_of_another_build_is_refused(facts, tmp_path):
    own = facts["build_id"].encode()
    other = own[:-1] + (b"0" if own[-1:] != b"0" else b"1")
    image = UNIT.read_bytes()
    assert own + b"\0" in image
    copy = tmp_path / UNIT.name
    copy.write_bytes(image.replace(own + b"\0", other + b"\0"))
    done = probe("--open", copy)
    assert done.returncode == 3
    assert f"is of another build ({other.decode()}) than this engine ({own.decode()})" in done.stdout


def test_a_missing_library_is_named_with_its_package(tmp_path):
    # The unit finds LibTorch by its run path; a copy of it with a folder of our own there finds nothing.
    image = UNIT.read_bytes()
    paths = re.search(rb"\(RUNPATH\).*\[(.*)\]|\(RPATH\).*\[(.*)\]",
                      subprocess.run(["readelf", "-d", str(UNIT)], capture_output=True, check=True).stdout)
    old = next(group for group in paths.groups() if group)
    assert old + b"\0" in image
    hidden = tmp_path / UNIT.name
    hidden.write_bytes(image.replace(old + b"\0", b"/nonexistent".ljust(len(old), b"/") + b"\0"))
    done = probe("--open", hidden, env={"LD_LIBRARY_PATH": ""})
    assert done.returncode == 3
    assert re.search(r"lib\w+\.so[.\d]* was not found; it comes with ", done.stdout), done.stdout
    assert "scripts/setup.sh" in done.stdout


def test_a_file_that_is_no_library_is_refused(tmp_path):
    wrong = tmp_path / UNIT.name
    wrong.write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 50)
    done = probe("--open", wrong)
    assert done.returncode == 3
    assert "cannot load libtrainctl_cuda.so" in done.stdout and "invalid ELF header" in done.stdout
