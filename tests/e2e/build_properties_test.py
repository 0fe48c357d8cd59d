"""What the three link units link and need (docs/design.md, section 2), and where they find it."""

import os
import pathlib
import platform
import re
import shutil
import subprocess

import pytest

BIN = pathlib.Path(os.environ["TRAINCTL_BIN"])
BUILD = pathlib.Path(os.environ["TRAINCTL_BUILD"])
CUDA_BUILT = os.environ["TRAINCTL_CUDA_BUILT"] == "ON"
UNITS = ["trainctl", "libtrainctl_engine.so"] + (["libtrainctl_cuda.so"] if CUDA_BUILT else [])
FLOOR = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True,
                          timeout=120, **options).stdout


def needed(unit):
    return set(re.findall(r"\(NEEDED\).*\[(.+?)\]", run("readelf", "-d", BIN / unit)))


def needed_symbol_versions(path):
    """{"GLIBC_2.34": ["dlopen", …]} of the undefined dynamic symbols."""
    versions = {}
    for symbol, version in re.findall(r" (\w+)@(\w+[\d.]+)", run("nm", "-D", "--undefined-only", path)):
        versions.setdefault(version, []).append(symbol)
    return versions


def above_floor(versions):
    for version, symbols in versions.items():
        family, _, number = version.rpartition("_")
        if family in FLOOR and tuple(map(int, number.split("."))) > FLOOR[family]:
            yield version, symbols


@pytest.mark.parametrize("unit", UNITS)
def test_no_symbol_above_the_floor(unit):
    glibc = tuple(map(int, platform.libc_ver()[1].split(".")))
    if glibc > (2, 36):
        pytest.skip(f"glibc {platform.libc_ver()[1]}: releases are built on glibc 2.36 or older")
    versions = needed_symbol_versions(BIN / unit)
    assert any(version.startswith("GLIBC_") for version in versions)
    assert list(above_floor(versions)) == []


def test_the_floor_check_sees_a_newer_symbol():
    assert [v for v, _ in above_floor({"GLIBCXX_3.4.30": ["w"], "GLIBC_2.9": ["x"], "GLIBC_2.36": ["y"]})] == [
        "GLIBCXX_3.4.30", "GLIBC_2.36"]


def test_executable_links_no_torch_and_no_cuda():
    loaded = run("ldd", BIN / "trainctl")
    assert "libc.so.6" in loaded
    assert not re.search(r"torch|c10|cuda|cudnn|nccl|cupti|gomp|spdlog|fmt", loaded), loaded


def test_engine_links_the_cpu_part_of_libtorch_only():
    ours = {name for name in needed("libtrainctl_engine.so") if re.search(r"torch|c10|cu|nccl", name)}
    assert ours == {"libtorch_cpu.so", "libc10.so"}


def test_engine_and_libtorch_share_one_openmp_runtime():
    gomp = {name for name in needed("libtrainctl_engine.so") if "omp" in name}
    loaded = run("ldd", BIN / "libtrainctl_engine.so")
    assert len(gomp) == 1, gomp
    assert len(re.findall(r"lib[gi]?omp\S* => ", loaded)) == 1, loaded


@pytest.mark.skipif(not CUDA_BUILT, reason="this build has no CUDA unit")
def test_cuda_unit_links_neither_nccl_nor_cudnn_itself():
    names = needed("libtrainctl_cuda.so")
    assert {"libtorch_cuda.so", "libc10_cuda.so"} <= names
    assert not [name for name in names if re.search(r"nccl|cudnn|libcuda\.so|nvidia-ml", name)]


@pytest.mark.parametrize("unit", UNITS[1:])
def test_units_export_nothing_but_their_c_entries(unit):
    exported = run("nm", "-D", "--defined-only", "--format=just-symbols", BIN / unit).split()
    ours = [name for name in exported if "trainctl" in name]
    assert ours and all(name.startswith("trainctl_") for name in ours), ours


def test_executable_works_alone(tmp_path):
    """As on a machine without LibTorch and CUDA: only the executable is there."""
    alone = shutil.copy2(BIN / "trainctl", tmp_path / "trainctl")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    assert "run" in run(alone, "--help", env=env)
    starter = run(alone, "config", "init", env=env, cwd=tmp_path)
    assert "model" in starter


def test_run_without_its_engine_says_what_is_missing(tmp_path):
    alone = shutil.copy2(BIN / "trainctl", tmp_path / "trainctl")
    config = tmp_path / "c.json"
    config.write_text(run(alone, "config", "init", cwd=tmp_path))
    (tmp_path / "data.txt").write_text("a line of text\n" * 2000)
    failed = subprocess.run([alone, "run", config, "--set", 'data.train=["data.txt"]'], cwd=tmp_path,
                            capture_output=True, text=True, timeout=60)
    assert failed.returncode == 3, failed.stderr
    assert "libtrainctl_engine.so" in failed.stderr and "TRAINCTL_ENGINE" in failed.stderr


def test_all_units_carry_the_same_build_id():
    header = (BUILD / "generated" / "trainctl_build_info.h").read_text()
    build_id = re.search(r'TRAINCTL_BUILD_ID "(.+)"', header).group(1).encode()
    assert re.fullmatch(rb"\d+\.\d+\.\d+\+\S+\.[0-9a-f]{12}", build_id)
    for unit in UNITS:
        assert build_id in (BIN / unit).read_bytes(), unit


def test_installed_programs_find_their_parts(tmp_path):
    prefix = tmp_path / "prefix"
    run(os.environ["TRAINCTL_CMAKE"], "--install", BUILD, "--prefix", prefix)
    assert (prefix / "bin" / "trainctl").exists()
    for unit in UNITS[1:]:
        loaded = run("ldd", prefix / "lib" / "trainctl" / unit)
        assert "not found" not in loaded, loaded
    (tmp_path / "data.txt").write_text("a line of text\n" * 200)
    config = tmp_path / "mini.json"
    config.write_text("""{"run": {"name": "mini"},
      "model": {"type": "gpt", "vocab_size": 257, "d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 64, "max_seq_len": 8},
      "data": {"format": "text", "train": ["data.txt"], "seq_len": 8},
      "training": {"max_steps": 2, "micro_batch_size": 2, "global_batch_size": 2},
      "optimizer": {"type": "adamw", "learning_rate": 1e-3}, "lr_scheduler": {"type": "constant"},
      "backend": {"device": "cpu"}}""")
    run(prefix / "bin" / "trainctl", "run", config, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)})
    assert (tmp_path / "runs" / "mini" / "metrics.jsonl").exists()
