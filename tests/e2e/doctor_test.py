"""`trainctl doctor` about driver, libraries and GPUs, the snapshot that a run saves, and comparisons."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TRAINCTL, config_with, train, trainctl, write  # noqa: E402

BUILD = pathlib.Path(os.environ.get("TRAINCTL_BUILD", pathlib.Path(TRAINCTL).parents[1]))
FAKE_DRIVER = BUILD / "fake_driver"
ENGINE = pathlib.Path(TRAINCTL).parent / "libtrainctl_engine.so"
GPU_HERE = any(re.fullmatch(r"nvidia\d+", name) for name in os.listdir("/dev")) or os.path.exists("/dev/dxg")
needs_engine = pytest.mark.skipif(not ENGINE.exists(), reason="built without the engine")
without_gpu = pytest.mark.skipif(GPU_HERE, reason="this machine has a GPU")


def ask(*arguments, env=None, before=()):
    clean = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    words = [*before, str(TRAINCTL), "doctor", *map(str, arguments)]
    return subprocess.run(words, env={**clean, **(env or {})}, capture_output=True, text=True, timeout=60, check=False)


def probes(*arguments, env=None, before=()):
    done = ask("--json", "--deadline", 20, *arguments, env=env, before=before)
    assert done.returncode in (0, 3), done.stderr
    answer = json.loads(done.stdout)
    assert answer["fit"] == (done.returncode == 0)
    return {probe["id"]: probe for probe in answer["probes"]}


def with_fake_driver(**stub):
    assert (FAKE_DRIVER / "libcuda.so.1").exists()
    return {"LD_LIBRARY_PATH": str(FAKE_DRIVER), **{name: str(value) for name, value in stub.items()}}


@needs_engine
@without_gpu
def test_without_a_gpu_it_exits_3_and_says_so_once(tmp_path):
    done = ask("--output-dir", tmp_path / "runs")
    assert done.returncode == 3
    assert "no NVIDIA GPU" in done.stdout and "NVIDIA driver 580 or newer" in done.stdout
    assert done.stdout.count("FAIL") == 1
    assert "\x1b" not in done.stdout
    assert len(done.stdout.splitlines()) < 60


@needs_engine
@without_gpu
def test_without_a_gpu_the_cpu_is_fit(tmp_path):
    done = ask("--device", "cpu", "--output-dir", tmp_path / "runs")
    assert done.returncode == 0, done.stdout
    assert "This machine is fit" in done.stdout


def test_a_driver_that_works_is_asked_and_believed():
    found = probes(env=with_fake_driver())
    assert found["driver.loaded"]["verdict"] == "ok"
    assert "2 GPUs" in found["driver.loaded"]["found"]
    assert "NVIDIA Stub 80" in found["gpus.devices"]["found"]


@pytest.mark.parametrize("stub, probe, explanation", [
    ({"STUB_CUDA_INIT": 802}, "driver.loaded", "fabric-manager"),
    ({"STUB_CUDA_INIT": 999}, "driver.loaded", "cuda-unknown-error"),
    ({"STUB_CUDA_CRASH": 1}, "driver.loaded", "driver-slow"),
    ({"STUB_CUDA_VERSION": 12040}, "driver.version", "driver-too-old"),
    ({"STUB_CUDA_CAPABILITY": 60}, "gpus.capability", "gpu-too-old"),
    ({"STUB_NVML_INIT": 18}, "driver.smi", "driver-parts-mismatch"),
])
@needs_engine
def test_each_broken_driver_has_its_name_cause_and_cure(stub, probe, explanation):
    finding = probes(env=with_fake_driver(**stub))[probe]
    assert (finding["verdict"], finding["explanation"]) == ("unfit", explanation)
    assert finding["cause"] and finding["cure"]


def test_a_driver_that_hangs_costs_its_deadline_only():
    begin = time.monotonic()
    done = ask("--json", "--deadline", 1.5, env=with_fake_driver(STUB_CUDA_HANG=1))
    assert time.monotonic() - begin < 20
    assert done.returncode == 3
    finding = {probe["id"]: probe for probe in json.loads(done.stdout)["probes"]}["driver.loaded"]
    assert finding["explanation"] == "driver-slow"
    assert subprocess.run(["pgrep", "-f", "doctor --json --deadline 1.5"], capture_output=True, check=False).stdout == b""


@needs_engine
def test_all_missing_libraries_are_named_at_once_with_what_brings_them(tmp_path):
    # A copy of the engine whose run path leads nowhere.
    image = ENGINE.read_bytes()
    listed = subprocess.run(["readelf", "-d", str(ENGINE)], capture_output=True, text=True, check=True).stdout
    old = re.search(r"R(?:UN)?PATH\).*\[(.*)\]", listed).group(1).encode()
    broken = tmp_path / ENGINE.name
    broken.write_bytes(image.replace(old + b"\0", b"/nonexistent".ljust(len(old), b"/") + b"\0"))
    found = probes("--device", "cpu", env={"TRAINCTL_ENGINE": str(broken), "LD_LIBRARY_PATH": ""})
    finding = found["libraries.missing"]
    assert (finding["verdict"], finding["explanation"]) == ("unfit", "library-missing")
    for name in ("libtorch_cpu.so", "libc10.so"):
        assert name in finding["found"]
    assert "torch==2.11.0" in finding["cause"]


@needs_engine
def test_it_names_what_the_loader_finds(tmp_path):
    done = ask("--json", "--device", "cpu", "--deadline", 20)
    objects = json.loads(done.stdout)["evidence"]["libraries"]["objects"]
    listed = subprocess.run(["ldd", str(ENGINE)], capture_output=True, text=True, check=True).stdout
    for name, path in re.findall(r"(\S+) => (/\S+)", listed):
        assert os.path.realpath(objects[name]["path"]) == os.path.realpath(path), name


@needs_engine
def test_an_older_library_first_in_the_path_is_named(tmp_path):
    listed = subprocess.run(["ldd", str(ENGINE)], capture_output=True, text=True, check=True).stdout
    real = pathlib.Path(os.path.realpath(re.search(r"libgomp\S* => (/\S+)", listed).group(1)))
    # By RUNPATH libgomp would come from LibTorch's folder.
    shutil.copy(real, tmp_path / "libgomp.so.1")
    finding = probes("--device", "cpu", env={"LD_LIBRARY_PATH": str(tmp_path)})["libraries.search_path"]
    assert finding["verdict"] in ("note", "warning")
    assert str(tmp_path / "libgomp.so.1") in finding["cause"]


def test_the_engine_that_is_missing_is_named(tmp_path):
    finding = probes("--device", "cpu", env={"TRAINCTL_ENGINE": str(tmp_path)})["libraries.engine"]
    assert (finding["verdict"], finding["explanation"]) == ("unfit", "engine-missing")
    assert str(tmp_path) in finding["cause"]


def test_an_engine_that_is_cut_short_is_named(tmp_path):
    (tmp_path / ENGINE.name).write_bytes(b"\x7fELF" + b"\0" * 20)
    finding = probes("--device", "cpu", env={"TRAINCTL_ENGINE": str(tmp_path)})["libraries.damaged"]
    assert (finding["verdict"], finding["explanation"]) == ("unfit", "library-damaged")


def test_the_documentation_has_every_probe():
    page = (pathlib.Path(os.environ["TRAINCTL_SOURCE"]) / "docs/doctor.md").read_text()
    documented = set(re.findall(r"`((?:driver|libraries|gpus|limits|network|storage|context)\.\w+)`", page))
    assert documented == set(probes("--device", "cpu"))


def test_verbose_shows_every_probe_and_the_evidence():
    done = ask("--verbose", "--device", "cpu", "--deadline", 20)
    assert "Fabric Manager" in done.stdout and "glibcxx: 3." in done.stdout


def saved(tmp_path, name, change=None):
    content = json.loads(ask("--json", "--device", "cpu", "--deadline", 20).stdout)
    if change:
        change(content)
    (tmp_path / name).write_text(json.dumps(content))
    return tmp_path / name


def test_a_machine_compared_with_itself_exits_0(tmp_path):
    done = ask("--compare", saved(tmp_path, "a.json"), "--deadline", 20)
    assert done.returncode == 0, done.stdout


def test_a_difference_that_can_change_numbers_exits_3(tmp_path):
    def other(content):
        content["evidence"]["libraries"]["libtorch"] = "2.11.0+cu128"
        content["evidence"]["context"]["system"]["kernel"] = "another"
    a, b = saved(tmp_path, "a.json"), saved(tmp_path, "b.json", other)
    for arguments in (["--compare", b], ["--compare", a, b], ["--compare", a, "--compare", b]):
        done = ask(*arguments, "--deadline", 20)
        assert done.returncode == 3, done.stdout
        numbers, harmless = done.stdout.split("\ncannot\n")
        assert "libraries.libtorch" in numbers and "context.system.kernel" in harmless
    found = json.loads(ask("--json", "--compare", a, b).stdout)
    assert not found["same_numbers"]
    assert {"what": "libraries.libtorch", "can_change_numbers": True}.items() <= found["differences"][0].items()


@pytest.mark.parametrize("content, words", [(None, "No such file"), ("{", "no snapshot"), ('{"a": 1}', "no snapshot")])
def test_what_is_no_snapshot_exits_2(tmp_path, content, words):
    if content is not None:
        (tmp_path / "x.json").write_text(content)
    done = ask("--compare", tmp_path / "x.json")
    assert done.returncode == 2
    assert "x.json" in done.stderr and words in done.stderr


@needs_engine
def test_a_run_saves_its_snapshot_and_can_be_compared_with(tmp_path):
    train(tmp_path, config_with(training__max_steps=2))
    run = tmp_path / "runs" / "mini"
    snapshot = json.loads((run / "doctor.json").read_text())
    assert {"driver", "libraries", "gpus", "context"} <= set(snapshot["evidence"])
    assert not list(run.glob("*.tmp*")) and not list(run.glob(".doctor*"))
    done = trainctl("doctor", "--compare", "runs/mini", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    other = trainctl("doctor", "--compare", "runs/mini", cwd=tmp_path, env={"NVIDIA_TF32_OVERRIDE": "0"})
    assert other.returncode == 3 and "NVIDIA_TF32_OVERRIDE" in other.stdout


@needs_engine
def test_a_refused_run_leaves_nothing(tmp_path):
    write(tmp_path, config_with(backend__device="cuda"))
    done = trainctl("run", "config.json", cwd=tmp_path, env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 3
    assert not (tmp_path / "runs").exists()


@needs_engine
def test_a_snapshot_that_hangs_holds_no_run_up(tmp_path):
    begin = time.monotonic()
    train(tmp_path, config_with(training__max_steps=2), env=with_fake_driver(STUB_CUDA_HANG=1))
    assert time.monotonic() - begin < 30
    # What answered is there all the same.
    snapshot = json.loads((tmp_path / "runs/mini/doctor.json").read_text())
    assert "no answer" in snapshot["evidence"]["driver"]["cuda"]["unanswered"]


@needs_engine
def test_a_killed_run_takes_its_snapshot_along(tmp_path):
    write(tmp_path, config_with(training__max_steps=100000))
    run = subprocess.Popen([str(TRAINCTL), "run", "config.json"], cwd=tmp_path, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env={**os.environ, **with_fake_driver(STUB_CUDA_HANG=1)})
    children = pathlib.Path(f"/proc/{run.pid}/task/{run.pid}/children")
    deadline = time.monotonic() + 60
    while not (found := children.read_text().split()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found
    run.send_signal(signal.SIGKILL)
    run.wait()
    while any(pathlib.Path(f"/proc/{pid}/exe").exists() for pid in found) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [pid for pid in found if pathlib.Path(f"/proc/{pid}/exe").exists()]
