"""A PyTorch program under torchrun and under `trainctl launch`: the same output, the same environment."""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from launching import SOURCE, clean_environment, launch, script  # noqa: E402

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
DDP = SOURCE / "tests/support/ddp_script.py"
# What must differ: the port, the file's place, who hosts the store, and who started the rank.
OWN = {"MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "TORCHELASTIC_USE_AGENT_STORE", "TRAINCTL_LAUNCH"}
NAMES = re.compile(r"^(RANK|WORLD_SIZE|LOCAL_.*|GROUP_.*|ROLE_.*|MASTER_.*|TORCHELASTIC_.*|TORCH_NCCL.*|OMP_NUM_THREADS|"
                   r"CUDA_VISIBLE_DEVICES|TRAINCTL_.*)$")
DUMP = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"

pytest.importorskip("torch", reason="PyTorch's Python package is the reference here")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(*arguments, cwd=None, **environment):
    return subprocess.run([*TORCHRUN, "--master-port", str(free_port()), *map(str, arguments)], cwd=cwd,
                          capture_output=True, text=True, timeout=120, env=clean_environment(**environment))


RESULT = re.compile(r"rank \d+ of \d+ on GPU slot \d: step \d loss \d+\.\d{9}|rank \d+: sum -?\d+\.\d{12}")


def own_lines(text):
    """The program's results, in an order that does not depend on timing; torchrun may put two into one line."""
    return sorted(RESULT.findall(text))


def test_a_ddp_program_prints_the_same():
    theirs = torchrun("--nproc-per-node", 2, DDP)
    ours = launch("--nproc-per-node", 2, DDP)
    assert (theirs.returncode, ours.returncode) == (0, 0), theirs.stderr + ours.stderr
    assert len(own_lines(ours.stdout)) == 12
    assert own_lines(ours.stdout) == own_lines(theirs.stdout)


def environments(done):
    found, text = [], done.stdout
    while "{" in text:  # torchrun's ranks may share a line
        variables, end = json.JSONDecoder().raw_decode(text, text.index("{"))
        found.append({k: v for k, v in variables.items() if NAMES.match(k)})
        text = text[end:]
    return sorted(found, key=lambda variables: variables["RANK"])


def names_tested_only_here(variables):
    return {k: v for k, v in variables.items() if k not in ("TRAINCTL_BIN", "TRAINCTL_SOURCE")}


@pytest.mark.parametrize("flags, variables", [
    (["--nproc-per-node=2"], {}),
    (["--nproc_per_node=2", "--max-restarts=3", "--role=trainer", "--rdzv-id=abc"], {}),
    (["--virtual-local-rank", "--nproc-per-node=2"], {"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2"}),
    ([], {"PET_NPROC_PER_NODE": "2", "PET_MAX_RESTARTS": "1", "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"}),
])
def test_ranks_get_the_same_environment(tmp_path, flags, variables):
    variables = {"OMP_NUM_THREADS": 3, **variables}
    path = script(tmp_path, DUMP)
    theirs = environments(torchrun(*flags, path, **variables))
    ours = environments(launch(*flags, path, **variables))
    assert len(theirs) == len(ours) == 2
    for expected, got in zip(theirs, ours):
        expected.pop("TORCHELASTIC_SIGNALS_TO_HANDLE", None)  # torchrun's own setting, leaked
        got, expected = names_tested_only_here(got), names_tested_only_here(expected)
        assert {k: v for k, v in got.items() if k not in OWN} == {k: v for k, v in expected.items() if k not in OWN}
        assert set(got) == set(expected) | {"TRAINCTL_LAUNCH"}


def test_a_recorded_error_is_told_as_torchrun_tells_it():
    done = launch("--nproc", 2, DDP, "--fail")
    assert done.returncode == 1
    report = done.stderr[done.stderr.rindex("trainctl: error: "):]
    assert report.startswith("trainctl: error: rank 1 on ")
    assert "ValueError: a defect in rank 1" in report
    assert "rank 0" not in report
