"""The border to the engine, with small libraries in its place: build ids, callbacks, dead pipes."""

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

BIN = Path(os.environ["TRAINCTL_BIN"]) / "trainctl"
SOURCE = Path(os.environ["TRAINCTL_SOURCE"])

ENGINE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "trainctl/engine/engine_api.h"
const char* trainctl_engine_build_id(void) { return BUILD_ID; }
int trainctl_engine_call(const char* request, const struct TrainctlHost* host) {
  const char* mode = getenv("FAKE_MODE");
  if (strcmp(mode, "echo") == 0) {
    host->print(host->user, request);
    const char* workspace = getenv("CUBLAS_WORKSPACE_CONFIG");
    host->print(host->user, workspace ? workspace : "unset");
    return 0;
  }
  if (strcmp(mode, "error") == 0) {
    host->error(host->user, 4, "the data are gone");
    return 4;
  }
  if (strcmp(mode, "progress") == 0) {
    host->progress(host->user, "step 1");
    host->log(host->user, 2, "take care");
    host->print(host->user, "a line\n");
    host->progress(host->user, "");
    return 75;
  }
  for (int i = 0; i < 100000; ++i) host->print(host->user, "a line of some length\n");
  FILE* done = fopen("done", "w");
  fclose(done);
  return 0;
}
"""

CONFIG = {
    "model": {"d_model": 16, "n_layers": 1, "n_heads": 2, "max_seq_len": 8},
    "data": {"train": ["data.txt"], "seq_len": 8},
    "training": {"max_steps": 20},
    "backend": {"deterministic": True, "cudnn_benchmark": True},
}


def build_id():
    shown = subprocess.run([BIN, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"build (.+)\)", shown).group(1)


def compile_engine(folder, source, name="libtrainctl_engine.so"):
    folder.mkdir()
    (folder / "engine.c").write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{SOURCE}/include", f'-DBUILD_ID="{build_id()}"',
                    f"-Wl,-soname,{name}",
                    "-o", folder / name, folder / "engine.c"], check=True)
    return folder


@pytest.fixture(scope="module")
def fake_engine(tmp_path_factory):
    return compile_engine(tmp_path_factory.mktemp("fake") / "lib", ENGINE)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(CONFIG))
    return tmp_path


def environment(engine, mode="echo", **more):
    base = {k: v for k, v in os.environ.items()
            if not k.startswith(("SLURM_", "CUBLAS_")) and k != "WORLD_SIZE"}
    return {**base, "TRAINCTL_ENGINE": str(engine), "FAKE_MODE": mode, **more}


def run(folder, engine, mode="echo", arguments=(), **more):
    return subprocess.run([BIN, "run", "run.json", *arguments], cwd=folder, capture_output=True,
                          text=True, timeout=60, env=environment(engine, mode, **more))


def test_request_holds_resolved_config_and_options(folder, fake_engine):
    result = run(folder, fake_engine, arguments=["--resume", "never", "--print-param-hash"])
    assert result.returncode == 0, result.stderr
    request, _ = json.JSONDecoder().raw_decode(result.stdout)
    assert request["command"] == "run"
    assert request["options"] == {"resume": "never", "restarted": False, "print_param_hash": True}
    assert request["world"]["world_size"] == 1 and request["world"]["rank"] == 0
    assert request["config"]["model"]["d_ff"] == 64
    assert request["config"]["backend"]["cudnn_benchmark"] is False
    assert len(request["warnings"]) == 1
    assert request["origins"]["model.d_model"] == "run.json:1"


def test_request_holds_the_place_among_a_launchers_processes(folder, fake_engine):
    result = run(folder, fake_engine, RANK="3", WORLD_SIZE="4", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2",
                 MASTER_ADDR="10.0.0.7", MASTER_PORT="29511", TORCHELASTIC_RESTART_COUNT="2",
                 TORCHELASTIC_USE_AGENT_STORE="True")
    world = json.JSONDecoder().raw_decode(result.stdout)[0]["world"]
    expected = {"rank": 3, "world_size": 4, "local_rank": 1, "local_world_size": 2, "master_addr": "10.0.0.7",
                "master_port": 29511, "restart_count": 2, "agent_store": True}
    assert {key: world[key] for key in expected} == expected


def test_determinism_sets_cublas_workspace_before_loading_unless_set(folder, fake_engine):
    assert run(folder, fake_engine).stdout.endswith(":4096:8")
    assert run(folder, fake_engine, CUBLAS_WORKSPACE_CONFIG=":16:8").stdout.endswith(":16:8")
    plain = run(folder, fake_engine, arguments=["--set", "backend.deterministic=false"])
    assert plain.stdout.endswith("unset")


def test_engine_error_is_one_message_with_its_code(folder, fake_engine):
    result = run(folder, fake_engine, "error")
    assert result.returncode == 4
    assert result.stderr == "trainctl: error: the data are gone\n"


def test_progress_stays_off_a_pipe(folder, fake_engine):
    result = run(folder, fake_engine, "progress")
    assert result.returncode == 75
    assert result.stdout == "a line\n"
    assert result.stderr == "trainctl: warning: take care\n"


def test_progress_gives_way_on_a_terminal(folder, fake_engine):
    main, side = pty.openpty()
    process = subprocess.Popen([BIN, "run", "run.json"], cwd=folder, stdout=side, stderr=side,
                               env=environment(fake_engine, "progress", TERM="xterm", NO_COLOR="1"))
    process.wait(timeout=60)
    os.close(side)
    shown = os.read(main, 4096).decode()
    os.close(main)
    assert process.returncode == 75
    clear = "\r\x1b[K"
    assert shown == (f"step 1{clear}trainctl: warning: take care\r\nstep 1"
                     f"{clear}a line\r\nstep 1{clear}")


def test_a_run_outlives_the_reader_of_its_output(folder, fake_engine):
    process = subprocess.Popen([BIN, "run", "run.json"], cwd=folder, stdout=subprocess.PIPE,
                               env=environment(fake_engine, "chatty"))
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert (folder / "done").exists()


def test_engine_of_another_build_is_refused(folder, tmp_path):
    other = compile_engine(tmp_path / "other", ENGINE.replace("BUILD_ID", '"0.0.1+other"'))
    result = run(folder, other)
    assert result.returncode == 3
    assert "is of another build (0.0.1+other)" in result.stderr


def test_library_that_is_no_engine_is_refused(folder, tmp_path):
    result = run(folder, compile_engine(tmp_path / "none", "int x;"))
    assert result.returncode == 3
    assert "is no engine of trainctl" in result.stderr


def test_missing_library_of_the_engine_is_named(folder, tmp_path):
    """libcudart.so.99, which no machine has, as libcudart.so.13 without the CUDA runtime."""
    needed = compile_engine(tmp_path / "needed", "int cuda_thing(void) { return 1; }",
                            "libcudart.so.99")
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "engine.c").write_text("int cuda_thing(void); int use(void) { return cuda_thing(); }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", engine / "libtrainctl_engine.so",
                    engine / "engine.c", needed / "libcudart.so.99"], check=True)
    (needed / "libcudart.so.99").unlink()
    result = run(folder, engine)
    assert result.returncode == 3
    assert "libcudart.so.99" in result.stderr
    assert "nvidia-cuda-runtime" in result.stderr
