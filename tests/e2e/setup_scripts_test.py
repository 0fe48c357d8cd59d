"""scripts/setup.sh and the CMake modules it relies on: what they choose, and what they refuse."""

import functools
import hashlib
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import threading

import pytest

SOURCE = pathlib.Path(os.environ["TRAINCTL_SOURCE"])
CMAKE = os.environ["TRAINCTL_CMAKE"]
LOCK = SOURCE / "scripts" / "versions.lock"


def run(*command, env=None, **options):
    full = {k: v for k, v in os.environ.items() if k not in ("TORCH_ROOT", "CMAKE_PREFIX_PATH", "TRAINCTL_CUDA")}
    full.setdefault("CMAKE_GENERATOR", "Ninja")  # a bare machine has no make
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300,
                          env={**full, **(env or {})}, **options)


def flat(text):
    """CMake wraps its messages at the terminal's width."""
    return " ".join(text.split())


def write_tool(path, script):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


@pytest.fixture
def gpu(tmp_path):
    """An environment in which nvidia-smi lists a GPU."""
    write_tool(tmp_path / "gpu" / "nvidia-smi", 'echo "GPU 0: NVIDIA H100 (UUID: GPU-1)"')
    return {"PATH": f"{tmp_path / 'gpu'}:{os.environ['PATH']}"}


def fake_torch(folder, version="2.11.0", cuda=False):
    """What tells a LibTorch: its headers' version and its libraries' names."""
    header = folder / "include" / "torch" / "headeronly" / "version.h"
    header.parent.mkdir(parents=True)
    major, minor, patch = version.split(".")
    header.write_text(f"#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n"
                      f"#define TORCH_VERSION_PATCH {patch}\n")
    (folder / "include" / "ATen").mkdir()
    (folder / "include" / "ATen" / "ATen.h").touch()
    (folder / "lib").mkdir()
    for name in ["torch_cpu", "c10"] + (["torch_cuda", "c10_cuda"] if cuda else []):
        (folder / "lib" / f"lib{name}.so").touch()
    return folder


def setup(tmp_path, *flags, env=None):
    return run(SOURCE / "scripts" / "setup.sh", "--no-root", *flags,
               env={"TRAINCTL_DEPS_DIR": str(tmp_path / "deps"), **(env or {})})


# --- versions.lock ---------------------------------------------------------------------------------


def test_every_line_of_the_lock_is_a_pin():
    for line in LOCK.read_text().splitlines():
        if line and not line.startswith("#"):
            assert re.fullmatch(r"(torch|cuda|nvcc|test|tool) [a-z0-9-]+ [0-9.]+( (<|>=)3\.11)?"
                                r"|archive \w+ [0-9.]+ [0-9a-f]{64} https://\S+", line), line


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.13"])
def test_pins_of_a_python_name_each_package_once(python):
    script = f'ROOT={SOURCE}; source "$ROOT/scripts/lib/lock.sh"; lock_pins {python} torch cuda test'
    pins = run("bash", "-c", script).stdout.split()
    names = [pin.split("==")[0] for pin in pins]
    assert "torch==2.11.0" in pins and "numpy" in names
    assert len(names) == len(set(names))


# --- choices of scripts/setup.sh --------------------------------------------------------------------


def test_help_and_unknown_flag(tmp_path):
    assert "--cuda" in setup(tmp_path, "--help").stdout
    wrong = setup(tmp_path, "--gpu")
    assert wrong.returncode == 2 and "usage:" in wrong.stderr


def test_given_torch_is_taken_and_nothing_is_installed(tmp_path):
    torch = fake_torch(tmp_path / "libtorch")
    done = setup(tmp_path, "--no-cuda", env={"TORCH_ROOT": str(torch)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"LibTorch 2.11.0 (given): {torch}" in done.stdout
    assert (tmp_path / "deps" / "torch_root").read_text().strip() == str(torch)
    assert not (tmp_path / "deps" / "venv").exists()


def test_torch_in_cmake_prefix_path_is_taken(tmp_path):
    torch = fake_torch(tmp_path / "libtorch")
    (torch / "share" / "cmake").mkdir(parents=True)
    done = setup(tmp_path, "--no-cuda", env={"CMAKE_PREFIX_PATH": f"/nonexistent:{torch}/share/cmake"})
    assert f"(given): {torch}" in done.stdout, done.stderr


def test_given_torch_of_another_version_is_refused(tmp_path):
    torch = fake_torch(tmp_path / "libtorch", "2.5.1")
    done = setup(tmp_path, env={"TORCH_ROOT": str(torch)})
    assert done.returncode == 3
    assert "2.5.1" in done.stderr and str(torch) in done.stderr and "What to do:" in done.stderr


def test_active_torch_is_found_without_importing_it(tmp_path):
    torch = fake_torch(tmp_path / "site" / "torch")
    (torch / "__init__.py").write_text("raise SystemExit('imported')")
    done = setup(tmp_path, "--no-cuda", env={"PYTHONPATH": str(tmp_path / "site")})
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"LibTorch 2.11.0 (active): {torch}" in done.stdout


def test_a_visible_gpu_never_ends_in_a_silent_cpu_build(tmp_path, gpu):
    torch = fake_torch(tmp_path / "libtorch")
    done = setup(tmp_path, env={"TORCH_ROOT": str(torch), **gpu})
    assert done.returncode == 3
    assert "this machine has an NVIDIA GPU" in done.stderr and "TRAINCTL_CUDA=OFF" in done.stderr
    asked = setup(tmp_path, env={"TORCH_ROOT": str(torch), "TRAINCTL_CUDA": "OFF", **gpu})
    assert asked.returncode == 0, asked.stderr
    assert "CUDA: off, as asked" in asked.stdout


def test_no_fit_python_is_explained(tmp_path):
    for name in ["python3"] + [f"python3.{minor}" for minor in range(10, 14)]:
        write_tool(tmp_path / "old" / name, 'case "$*" in *--version*) echo "Python 3.9.2";; *) exit 1;; esac')
    done = setup(tmp_path, "--no-cuda", env={"PATH": f"{tmp_path / 'old'}:{os.environ['PATH']}"})
    assert done.returncode == 3
    assert "Python 3.9.2" in done.stderr and "3.10 to 3.13" in done.stderr and "TORCH_ROOT" in done.stderr


def test_old_compiler_is_explained(tmp_path):
    old = write_tool(tmp_path / "g++-9", 'case "$*" in *--version*) echo "g++ 9.4.0"; '
                     'echo "Copyright (C) 2019 Free Software Foundation, Inc.";; *) echo 9.4.0;; esac')
    done = setup(tmp_path, env={"CXX": str(old)})
    assert done.returncode == 3
    assert "9.4.0" in done.stderr and "g++ 11 or newer" in done.stderr


def test_second_run_needs_no_network():
    """The checkout's own .deps, complete once the tests run, in an empty network namespace."""
    namespace = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    if run(*namespace, "true").returncode != 0:
        pytest.skip("network namespaces are not allowed here")
    done = run(*namespace, SOURCE / "scripts" / "setup.sh", "--tests")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all there" in done.stdout and "installing" not in done.stdout


# --- CMake: GPU, sources from a mirror ----------------------------------------------------------------


@pytest.mark.parametrize("lists,visible", [('echo "GPU 0: NVIDIA H100"', True), ("exit 9", False)])
def test_shell_and_cmake_agree_on_what_a_gpu_is(tmp_path, lists, visible):
    if list(pathlib.Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("this machine has a GPU")
    write_tool(tmp_path / "bin" / "nvidia-smi", lists)
    env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    shell = run("bash", "-c", f"source {SOURCE}/scripts/lib/gpu.sh; gpu_visible", env=env)
    assert (shell.returncode == 0) == visible
    (tmp_path / "t.cmake").write_text(f"include({SOURCE}/cmake/Gpu.cmake)\ntrainctl_gpu_visible(v)\nmessage(\"<${{v}}>\")")
    assert ("<ON>" if visible else "<OFF>") in run(CMAKE, "-P", tmp_path / "t.cmake", env=env).stderr


def test_cmake_refuses_a_cpu_build_where_a_gpu_is_visible(tmp_path, gpu):
    torch = fake_torch(tmp_path / "libtorch")
    command = [CMAKE, "-G", "Ninja", "-S", SOURCE / "cmake" / "probe", "-B", tmp_path / "b", f"-DTORCH_ROOT={torch}", "-DTRAINCTL_TESTS=OFF"]
    refused = run(*command, "-DTRAINCTL_CUDA=AUTO", env=gpu)
    assert refused.returncode != 0
    assert "has an NVIDIA GPU" in flat(refused.stderr) and "-DTRAINCTL_CUDA=OFF" in flat(refused.stderr)
    asked = run(*command, "-DTRAINCTL_CUDA=ON")
    assert asked.returncode != 0 and "built for the CPU only" in flat(asked.stderr)
    assert run(*command, "-DTRAINCTL_CUDA=OFF", env=gpu).returncode == 0


TARGETS = {"json": "nlohmann_json::nlohmann_json", "CLI11": "CLI11::CLI11", "spdlog": "spdlog::spdlog_header_only",
           "xxHash": None}


@pytest.fixture
def mirror(tmp_path):
    """A copy of the CMake modules whose lock pins small archives made here, and the folder of these."""
    project, folder = tmp_path / "project", tmp_path / "mirror"
    shutil.copytree(SOURCE / "cmake", project / "cmake")
    (project / "scripts").mkdir()
    folder.mkdir()
    lines = []
    for name, target in TARGETS.items():
        source = tmp_path / f"{name}-1.0"
        source.mkdir()
        (source / "xxhash.h").touch()
        if target:
            (source / "CMakeLists.txt").write_text(
                f"add_library({name}_t INTERFACE)\nadd_library({target} ALIAS {name}_t)\n")
        archive = folder / f"{name}-1.0.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(source, arcname=source.name)
        lines.append(f"archive {name} 1.0 {hashlib.sha256(archive.read_bytes()).hexdigest()} https://127.0.0.1:9/{name}.tar.gz")
    (project / "scripts" / "versions.lock").write_text("\n".join(lines) + "\n")
    torch = fake_torch(tmp_path / "libtorch")

    def configure(where, build="b"):
        return run(CMAKE, "-S", project / "cmake" / "probe", "-B", tmp_path / build, "-DTRAINCTL_SYSTEM_LIBRARIES=OFF",
                   "-DTRAINCTL_TESTS=OFF", "-DTRAINCTL_CUDA=OFF", f"-DTORCH_ROOT={torch}",
                   env={"TRAINCTL_FETCH_MIRROR": str(where)})

    return folder, configure


def test_sources_come_from_a_folder_and_then_from_no_network(tmp_path, mirror):
    folder, configure = mirror
    first = configure(folder)
    assert first.returncode == 0, first.stderr
    assert "CLI11 1.0: from source" in first.stdout
    shutil.rmtree(folder)
    again = configure(folder, build="another")
    assert again.returncode == 0, again.stderr
    assert "Fetching" not in again.stdout


def test_sources_come_from_a_url(mirror):
    folder, configure = mirror
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = configure(f"http://127.0.0.1:{server.server_port}/")
        server.shutdown()
    assert done.returncode == 0, done.stderr
    assert "Fetching xxHash 1.0 from http://127.0.0.1" in done.stdout


def test_an_archive_of_another_hash_is_refused(mirror):
    folder, configure = mirror
    (folder / "spdlog-1.0.tar.gz").write_bytes(b"something else")
    done = configure(folder)
    assert done.returncode != 0
    assert "SHA-256" in done.stderr and "spdlog" in done.stderr and "TRAINCTL_FETCH_MIRROR" in done.stderr


def test_a_missing_archive_says_what_to_do(mirror):
    folder, configure = mirror
    (folder / "json-1.0.tar.gz").unlink()
    done = configure(folder)
    assert done.returncode != 0
    assert "no such file" in flat(done.stderr) and "json-1.0.tar.gz" in done.stderr and "What to do" in done.stderr
