"""Several ranks of trainctl run, started by `trainctl launch` as users do. lone_ranks.py has those without a launcher."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from launching import MARK, Launched, marked
from mini import metrics, write

TORCHRUN = pathlib.Path(sys.executable).with_name("torchrun")


class Rank:
    """What one rank printed, and its process."""

    def __init__(self, rank, logs, mark):
        self.rank = rank
        self._logs, self._mark = logs, mark

    def _text(self, name):
        files = sorted(self._logs.glob(f"none*/attempt_*/{self.rank}/{name}.log"))
        return "".join(path.read_text() for path in files)

    @property
    def stdout(self):
        return self._text("stdout")

    @property
    def stderr(self):
        return self._text("stderr")

    @property
    def pid(self):
        mine = {f"RANK={self.rank}", f"{MARK}={self._mark}"}
        found = [pid for pid, command in marked(self._mark)
                 if "launch-guard" not in command and "--snapshot" not in command and mine <= environment_of(pid)]
        assert len(found) == 1, f"rank {self.rank} has processes {found}"
        return found[0]

    def send_signal(self, number):
        os.kill(self.pid, number)


def environment_of(pid):
    try:
        return set(pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0"))
    except OSError:
        return set()


class LaunchedRanks:
    """A running launch of ranks on this host. What ranks print goes to files only, so that it can be told apart."""

    def __init__(self, folder, count, words, flags=(), **environment):
        folder = pathlib.Path(folder)
        logs = folder / f"rank_logs_{len(list(folder.glob('rank_logs_*')))}"
        logs.mkdir()
        self._err = logs / "launcher.err"
        with open(self._err, "w") as err:
            self._launched = Launched("--nproc", count, "--log-dir", logs, "--redirects", 3, "--grace-period", "5s",
                                      *flags, *words, cwd=folder, stdout=subprocess.DEVNULL, stderr=err, **environment)
        self.ranks = [Rank(rank, logs, self._launched.mark) for rank in range(count)]

    def __iter__(self):
        return iter(self.ranks)

    def __getitem__(self, rank):
        return self.ranks[rank]

    @property
    def stderr(self):
        """The launcher's own words."""
        return self._err.read_text()

    def ended(self):
        return self._launched.process.poll() is not None

    def wait(self, timeout=120):
        """The launcher's exit code; kills it and fails at the deadline."""
        try:
            return self._launched.process.wait(timeout)
        except subprocess.TimeoutExpired:
            text = self.text()
            self.kill()
            raise AssertionError(f"the launch still runs after {timeout} s\n{text}")

    def kill(self):
        """The ranks go with their launcher."""
        if not self.ended():
            self._launched.process.kill()
        self._launched.process.wait()

    def text(self):
        return "\n".join([f"--- launcher: {self._launched.process.poll()}\n{self.stderr}",
                          *(f"--- rank {r.rank}\n{r.stdout}{r.stderr}" for r in self.ranks)])


def start_ranks(folder, count, config, *arguments, text_file=True, **kwargs):
    """Launches `config`, or with None the config.json that is there."""
    if config is not None:
        write(folder, config) if text_file else write(folder, config, text=None)
    return LaunchedRanks(folder, count, ["config.json", *arguments], **kwargs)


def train_ranks(folder, count, config, *arguments, expect=0, timeout=120, **kwargs):
    """Runs `config` on `count` ranks to the end; the launch must exit with `expect`."""
    ranks = start_ranks(folder, count, config, *arguments, **kwargs)
    code = ranks.wait(timeout)
    assert code == expect, f"{code}\n{ranks.text()}"
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
        if ranks.ended():
            break
        time.sleep(0.01)
    raise AssertionError(f"step {step} was not reached\n{ranks.text()}")


def signal_rank_at_step(folder, ranks, rank, step, number=signal.SIGTERM):
    wait_for_step(folder, step, ranks)
    ranks[rank].send_signal(number)


def errors(rank):
    return [line for line in rank.stderr.splitlines() if "error:" in line]


def param_hashes(ranks):
    """One per rank."""
    return [line.split()[1] for r in ranks for line in r.stdout.splitlines() if line.startswith("param_hash ")]
