"""`trainctl doctor` on machines made worse for real: limits, networks, folders and variables."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TRAINCTL  # noqa: E402


def can(*words):
    """Whether this machine lets us do it."""
    if shutil.which(words[0]) is None:
        return False
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not can("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"),
                                  reason="this machine cannot make mount namespaces")
needs_networks = pytest.mark.skipif(not can("unshare", "-n", "ip", "link", "add", "d0", "type", "veth", "peer", "name", "d1"),
                                    reason="this machine cannot make networks")
needs_host_names = pytest.mark.skipif(not can("unshare", "-u", "hostname", "bogus"),
                                      reason="this machine cannot make UTS namespaces")
needs_limits = pytest.mark.skipif(shutil.which("prlimit") is None, reason="this machine cannot prlimit")


class Answer:
    def __init__(self, done):
        self.code = done.returncode
        assert self.code in (0, 3), f"exit {self.code}\n{done.stdout}\n{done.stderr}"
        self.json = json.loads(done.stdout)
        self.probes = {probe["id"]: probe for probe in self.json["probes"]}

    def said(self, probe_id):
        """("unfit", "shm-small")"""
        probe = self.probes[probe_id]
        if probe.get("explanation"):
            assert probe["cause"] and probe["cure"]
        return probe["verdict"], probe.get("explanation", "")


def doctor(folder, *arguments, before=(), script="", env=None):
    """Asks the doctor; `before` are words in front of it, `script` runs in the same shell before."""
    words = [*before, "sh", "-c", f'{script}\nexec "$@"', "sh", TRAINCTL, "doctor", "--json", "--device", "cpu",
             *arguments]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "NCCL_", "GLOO_"))}
    return Answer(subprocess.run([str(word) for word in words], cwd=folder, env={**clean, **(env or {})},
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False))


def listing(*folders):
    return sorted(str(path) for folder in folders for path in pathlib.Path(folder).rglob("*"))


def test_it_changes_nothing_and_takes_less_than_two_seconds(tmp_path):
    before = listing(tmp_path, "/dev/shm")
    seconds = []
    for _ in range(3):
        begin = time.monotonic()
        doctor(tmp_path, "--output-dir", "runs/deep", env={"TMPDIR": str(tmp_path)})
        seconds.append(time.monotonic() - begin)
        assert listing(tmp_path, "/dev/shm") == before
    assert min(seconds) < 2, seconds


def test_every_probe_of_these_groups_answers(tmp_path):
    answer = doctor(tmp_path)
    for group in ("limits", "network", "storage", "context"):
        assert "failed" not in answer.json["evidence"][group]
        assert [one for one in answer.json["probes"] if one["group"] == group]
    assert answer.probes["context.program"]["found"].startswith("trainctl ")


@needs_mounts
def test_shared_memory_of_one_megabyte_is_named_with_the_size_needed(tmp_path):
    answer = doctor(tmp_path, before=["unshare", "-m"], script="mount -t tmpfs -o size=1m tmpfs /dev/shm")
    assert answer.said("limits.shm") == ("warning", "shm-small")
    probe = answer.probes["limits.shm"]
    assert "/dev/shm holds 1.0 MiB" in probe["found"]
    assert "2 GPUs may need 73.5 MiB" in probe["cause"] and "--shm-size" in probe["cure"]


@needs_mounts
def test_shared_memory_that_is_missing(tmp_path):
    script = "mkdir dev && mount -t tmpfs tmpfs dev && touch dev/null && mount --bind /dev/null dev/null && " \
             "mount --move dev /dev"
    answer = doctor(tmp_path, before=["unshare", "-m"], script=script)
    assert answer.said("limits.shm") == ("warning", "shm-missing")


@needs_limits
@pytest.mark.parametrize("limit, probe, said", [
    ("--nofile=20", "limits.open_files", ("unfit", "open-files-low")),
    ("--nofile=512", "limits.open_files", ("warning", "open-files-low")),
    ("--stack=262144", "limits.stack", ("warning", "stack-small")),
    ("--as=4000000000", "limits.address_space", ("warning", "address-space-limited")),
    ("--fsize=1000", "limits.file_size", ("unfit", "file-size-limited")),
    ("--fsize=1000", "storage.speed", ("unfit", "write-fails")),
    ("--core=0", "limits.core", ("ok", "")),
])
def test_resource_limits(tmp_path, limit, probe, said):
    answer = doctor(tmp_path, before=["prlimit", limit])
    assert answer.said(probe) == said
    assert answer.code == 3 if said[0] == "unfit" else True


@needs_limits
def test_few_threads_for_a_user_who_is_not_root(tmp_path):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("this machine cannot change the user")
    program = pathlib.Path(shutil.copy(TRAINCTL, f"/tmp/trainctl-doctor-{os.getpid()}"))
    try:
        words = ["setpriv", "--reuid=61234", "--clear-groups", "prlimit", "--nproc=25", program, "doctor", "--json",
                 "--device", "cpu"]
        answer = Answer(subprocess.run([str(word) for word in words], cwd="/", capture_output=True, text=True,
                                       timeout=60, check=False))
    finally:
        program.unlink()
    assert answer.said("limits.threads")[1] == "threads-few"
    assert "ulimit -u" in answer.probes["limits.threads"]["cause"]
    assert answer.said("storage.output") == ("unfit", "output-not-writable")  # '/' is root's


def memory_group():
    """A control group of our own, by its path, or None; and the name of the file with its limit."""
    for folder, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = pathlib.Path(folder) / f"trainctl-doctor-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / name).exists():
            return group, name
        group.rmdir()
    return None, None


def test_memory_limit_of_a_control_group(tmp_path):
    group, name = memory_group()
    if group is None:
        pytest.skip("this machine cannot make control groups")
    try:
        (group / name).write_text(str(100 << 20))
        answer = doctor(tmp_path, script=f"echo $$ > {group}/cgroup.procs")
    finally:
        group.rmdir()
    assert answer.said("limits.memory") == ("unfit", "memory-low")
    assert "control group may use 100 MiB" in answer.probes["limits.memory"]["found"]


def test_affinity_to_one_processor(tmp_path):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("this machine cannot show it: it has one processor")
    answer = doctor(tmp_path, before=["taskset", "-c", str(min(os.sched_getaffinity(0)))])
    assert answer.probes["limits.processors"]["found"].startswith("1 of ")
    assert "affinity" in answer.probes["limits.processors"]["found"]


@needs_host_names
def test_own_name_without_an_address(tmp_path):
    answer = doctor(tmp_path, before=["unshare", "-u"], script="hostname no-such-host-anywhere")
    assert answer.said("network.own_name") == ("warning", "own-name-unresolved")
    assert "no-such-host-anywhere" in answer.probes["network.own_name"]["found"]


@needs_networks
def test_network_with_loopback_down(tmp_path):
    answer = doctor(tmp_path, before=["unshare", "-n"])
    assert answer.said("network.loopback") == ("unfit", "loopback-broken")
    assert answer.said("network.interfaces") == ("note", "no-interface")
    assert answer.code == 3


@needs_networks
def test_network_with_nothing_but_loopback(tmp_path):
    answer = doctor(tmp_path, before=["unshare", "-n"], script="ip link set lo up")
    assert answer.said("network.loopback") == ("ok", "")
    assert answer.probes["network.nccl"]["found"] == "NCCL takes lo (127.0.0.1)"


@needs_networks
def test_hosts_that_are_silent_and_without_a_way(tmp_path):
    script = "ip link set lo up; ip link add d0 type veth peer name d1; ip address add 10.9.0.1/24 dev d0; " \
             "ip link set d0 up; ip link set d1 up; ip route add unreachable 10.10.0.0/16"
    begin = time.monotonic()
    answer = doctor(tmp_path, "--host", "10.9.0.2:29500", before=["unshare", "-n"], script=script)
    assert time.monotonic() - begin < 4
    assert answer.said("network.hosts") == ("unfit", "host-silent")
    assert answer.probes["network.gloo"]["found"].startswith("no way to other hosts")
    answer = doctor(tmp_path, "--host", "10.10.0.2:29500", before=["unshare", "-n"], script=script)
    assert answer.said("network.hosts") == ("unfit", "host-unreachable")


def test_ports_open_and_refused_and_names_unknown(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answer = doctor(tmp_path, "--host", f"127.0.0.1:{port}")
        assert answer.said("network.hosts") == ("ok", "")
    answer = doctor(tmp_path, "--host", f"127.0.0.1:{port}", "--host", "127.0.0.1")
    assert answer.said("network.hosts") == ("unfit", "port-refused")
    answer = doctor(tmp_path, "--host", "no-such-host.invalid:1")
    assert answer.said("network.hosts") == ("unfit", "name-unresolved")


def test_a_senseless_host_is_a_usage_error():
    done = subprocess.run([TRAINCTL, "doctor", "--host", "node1:port"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 2
    assert "--host is 'node1:port'" in done.stderr


@pytest.mark.parametrize("name, value, probe, said", [
    ("GLOO_SOCKET_IFNAME", "bogus0", "network.gloo", ("unfit", "gloo-ifname-unknown")),
    ("NCCL_SOCKET_IFNAME", "bogus0", "network.nccl", ("warning", "nccl-ifname-nothing")),
    ("MASTER_ADDR", "no-such-host.invalid", "network.master", ("unfit", "name-unresolved")),
    ("RANK", "3", "context.place", ("unfit", "launch-variables-odd")),
    ("OMP_NUM_THREADS", "99999", "context.threads", ("warning", "threads-odd")),
    ("CUDA_LAUNCH_BLOCKING", "1", "context.slow_variables", ("warning", "slow-variables")),
    ("PYTORCH_CUDA_ALLOC_CONF", "max_split:1", "context.allocator", ("warning", "allocator-setting-odd")),
    ("TMPDIR", "/nowhere/at/all", "storage.temporary", ("warning", "tmpdir-unusable")),
    ("LD_PRELOAD", "/nowhere/libx.so", "context.preload", ("warning", "preload-missing")),
])
def test_variables(tmp_path, name, value, probe, said):
    answer = doctor(tmp_path, env={name: value})
    assert answer.said(probe) == said


@needs_mounts
@pytest.mark.parametrize("options, probe, said", [
    ("size=1m", "storage.space", ("unfit", "disk-full")),
    ("size=64m", "storage.kind", ("warning", "output-in-memory")),
    ("nr_inodes=5", "storage.files", ("unfit", "inodes-few")),
    ("ro", "storage.output", ("unfit", "output-read-only")),
])
def test_output_folders(tmp_path, options, probe, said):
    (tmp_path / "runs").mkdir()
    answer = doctor(tmp_path, before=["unshare", "-m"], script=f"mount -t tmpfs -o {options} tmpfs runs")
    assert answer.said(probe) == said
    assert listing(tmp_path) == [str(tmp_path / "runs")]
