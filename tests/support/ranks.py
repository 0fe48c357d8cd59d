"""Starts several ranks of trainctl run, as a launcher does. The one place that knows how."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from mini import TRAINCTL, metrics, write

TORCHRUN = pathlib.Path(sys.executable).with_name("torchrun")
LAUNCHER_VARIABLES = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "MASTER_", "TRAINCTL_LAUNCH")
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")


def plain_environment():
    return {k: v for k, v in os.environ.items()
            if not k.startswith(LAUNCHER_VARIABLES) and k not in RANK_VARIABLES}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Rank:
    """One process; its output goes to files, which no reader can hold up."""

    def __init__(self, folder, rank, command, environment):
        logs = folder / "rank_logs"
        logs.mkdir(exist_ok=True)
        self.rank = rank
        self._out, self._err = logs / f"{rank}.out", logs / f"{rank}.err"
        with open(self._out, "w") as out, open(self._err, "w") as err:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err)

    @property
    def stdout(self):
        return self._out.read_text()

    @property
    def stderr(self):
        return self._err.read_text()

    @property
    def returncode(self):
        return self.process.returncode

    def send_signal(self, number):
        self.process.send_signal(number)


class Ranks:
    """A running group of ranks of this host."""

    def __init__(self, folder, count, command, environments=None, **world):
        base = {**plain_environment(), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1",
                "TORCHELASTIC_RUN_ID": "test", **{k: str(v) for k, v in world.items()}}
        self.ranks = []
        for rank in range(count):
            extra = (environments or {}).get(rank, {})
            environment = {**base, "RANK": str(rank), "LOCAL_RANK": str(rank), **extra}
            words = command(rank) if callable(command) else command
            self.ranks.append(Rank(pathlib.Path(folder), rank, list(map(str, words)), environment))

    def __iter__(self):
        return iter(self.ranks)

    def __getitem__(self, rank):
        return self.ranks[rank]

    def wait(self, timeout=120, ranks=None):
        """Exit codes in order of rank; kills what is left at the deadline and fails."""
        deadline = time.monotonic() + timeout
        waited_for = [r for r in self.ranks if ranks is None or r.rank in ranks]
        try:
            for rank in waited_for:
                rank.process.wait(max(deadline - time.monotonic(), 0.01))
        except subprocess.TimeoutExpired:
            text = self.text()
            self.kill()
            raise AssertionError(f"ranks still run after {timeout} s\n{text}")
        return [r.returncode for r in waited_for]

    def kill(self):
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.kill()
            rank.process.wait()

    def text(self):
        return "\n".join(f"--- rank {r.rank}: {r.process.poll()}\n{r.stdout}{r.stderr}" for r in self.ranks)


def start_ranks(folder, count, config, *arguments, environments=None, text_file=True, **world):
    if config is not None:
        write(folder, config) if text_file else write(folder, config, text=None)
    return Ranks(folder, count, [TRAINCTL, "run", "config.json", *arguments], environments, **world)


def train_ranks(folder, count, config, *arguments, expect=0, timeout=120, **kwargs):
    """Runs `config` on `count` ranks to the end; every rank must exit with `expect`."""
    ranks = start_ranks(folder, count, config, *arguments, **kwargs)
    codes = ranks.wait(timeout)
    assert codes == [expect] * count, f"{codes}\n{ranks.text()}"
    return ranks


def wait_for_step(folder, step, ranks, name="mini", timeout=60):
    """Returns once metrics.jsonl shows `step` or a later one."""
    path = pathlib.Path(folder) / "runs" / name / "metrics.jsonl"
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if path.exists():
            lines = [line for line in metrics(folder, name) if "loss" in line]
            if lines and lines[-1]["step"] >= step:
                return
        if any(r.process.poll() is not None for r in ranks):
            break
        time.sleep(0.01)
    raise AssertionError(f"step {step} was not reached\n{ranks.text()}")


def signal_rank_at_step(folder, ranks, rank, step, number=signal.SIGTERM):
    wait_for_step(folder, step, ranks)
    ranks[rank].send_signal(number)


def param_hashes(ranks):
    """One per rank."""
    return [line.split()[1] for r in ranks for line in r.stdout.splitlines() if line.startswith("param_hash ")]
