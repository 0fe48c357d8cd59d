"""backend.device in whole runs: what is loaded, what is said, which exit code."""

import os
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import config_with, trainctl, train, write  # noqa: E402

GPU_HERE = any(re.fullmatch(r"nvidia\d+", name) for name in os.listdir("/dev")) or os.path.exists("/dev/dxg")
without_gpu = pytest.mark.skipif(GPU_HERE, reason="this machine has a GPU")


def loaded_libraries(folder, config):
    """Names of all shared objects that a run loads or looks for, from the dynamic loader's own record."""
    train(folder, config, env={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(folder / "loader")})
    names = set()
    for record in folder.glob("loader.*"):
        own = {pathlib.Path(name).name for name in re.findall(r"file=(\S+) \[\d+\]", record.read_text())}
        # The other processes are the doctor's, which makes the run's snapshot.
        if any(name.startswith("libtorch_cpu") for name in own):
            names |= own
    assert any(name.startswith("libtorch_cpu") for name in names)
    return names


# libtorch_cpu of the CUDA LibTorch links these two itself.
ALLOWED = ("libcudart", "libcupti")
CUDA = ("libcu", "libnv", "libnccl", "libtorch_cuda", "libc10_cuda", "libtrainctl_cuda", "libcaffe2_nvrtc")


@pytest.mark.parametrize("device", ["cpu", pytest.param("auto", marks=without_gpu)])
def test_a_cpu_run_loads_no_cuda_library_of_its_own(tmp_path, device):
    names = loaded_libraries(tmp_path, config_with(training__max_steps=2, backend__device=device))
    assert not [name for name in names if name.startswith(CUDA) and not name.startswith(ALLOWED)]


@without_gpu
def test_auto_without_a_gpu_says_why_and_trains_on_the_cpu(tmp_path):
    done = train(tmp_path, config_with(training__max_steps=2, backend__device="auto"))
    assert re.search(r"^ +no GPU +no NVIDIA ", done.stdout, re.M), done.stdout
    assert "NVIDIA driver 580 or newer" in done.stdout


def test_cpu_asked_for_is_no_reason_to_complain(tmp_path):
    done = train(tmp_path, config_with(training__max_steps=2, backend__device="cpu"))
    assert "no GPU" not in done.stdout
    assert re.search(r"^ +device +cpu$", done.stdout, re.M)


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_cuda_without_a_gpu_exits_3_with_cause_and_cure(tmp_path, device):
    write(tmp_path, config_with(backend__device=device))
    done = trainctl("run", "config.json", cwd=tmp_path, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 3
    assert f'backend.device is "{device}": CUDA_VISIBLE_DEVICES="" hides every GPU' in done.stderr
    assert "unset it" in done.stderr
    assert 'set backend.device to "cpu"' in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("device, message", [
    ("cpu", "cudnn attention exists on CUDA only"),  # seen in the config alone
    pytest.param("auto", '"cudnn" does not exist on CPU; set one of: auto, flash, math', marks=without_gpu),
])
def test_an_attention_back_end_the_cpu_lacks_exits_2_and_names_the_others(tmp_path, device, message):
    write(tmp_path, config_with(backend__attention="cudnn", backend__device=device))
    done = trainctl("run", "config.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "backend.attention: " + message in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_header_says_which_switches_are_in_force(tmp_path):
    done = train(tmp_path, config_with(training__max_steps=2, backend__deterministic=True,
                                       backend__cudnn_benchmark=True, precision__float32_matmul_precision="high"))
    for line in (r"threads +1 \(backend\.threads; ", r"fp32 matmul +high ", r"deterministic +on$",
                 r"cuDNN +benchmark off, deterministic on, TF32 on", r"attention +own, else flash \(auto\)$"):
        assert re.search(rf"^ +{line}", done.stdout, re.M), f"{line}\n{done.stdout}"
    assert done.stderr.count("cudnn_benchmark") == 1 and "off by backend.deterministic" in done.stderr
