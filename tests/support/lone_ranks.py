"""Ranks that a test starts one by one, without a launcher that watches over them.

For what `trainctl launch` never lets happen, or would end first: a rank that never comes, ranks started differently, a
wrong MASTER_ADDR or MASTER_PORT, and how the others end by themselves when one of them fails. So ranks stand under
srun, mpirun and schedulers' own launchers. All else goes through ranks.py.
"""

import pathlib
import socket
import subprocess
import time

from launching import TRAINCTL, clean_environment


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class LoneRank:
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

    def send_signal(self, number):
        self.process.send_signal(number)


class LoneRanks:
    """`config(rank)`: the file of each, or `command(rank)`: its whole command; `environments`: what single ranks see;
    `world`: what all see."""

    def __init__(self, folder, count, config=lambda rank: "config.json", environments=None, command=None, **world):
        common = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": free_port(), "OMP_NUM_THREADS": 1, **world}
        self.ranks = []
        for rank in range(count):
            environment = clean_environment(**{"RANK": rank, "LOCAL_RANK": rank, **common,
                                               **(environments or {}).get(rank, {})})
            words = command(rank) if command else [TRAINCTL, "run", config(rank)]
            self.ranks.append(LoneRank(pathlib.Path(folder), rank, words, environment))

    def __iter__(self):
        return iter(self.ranks)

    def __getitem__(self, rank):
        return self.ranks[rank]

    def ended(self):
        return any(rank.process.poll() is not None for rank in self.ranks)

    def wait(self, timeout=120, ranks=None):
        """Exit codes in order of rank, of all or of `ranks`; kills what is left at the deadline and fails."""
        deadline = time.monotonic() + timeout
        waited_for = [rank for rank in self.ranks if ranks is None or rank.rank in ranks]
        try:
            return [rank.process.wait(max(deadline - time.monotonic(), 0.01)) for rank in waited_for]
        except subprocess.TimeoutExpired:
            text = self.text()
            for rank in self.ranks:
                rank.process.kill()
                rank.process.wait()
            raise AssertionError(f"ranks still run after {timeout} s\n{text}")

    def text(self):
        return "\n".join(f"--- rank {r.rank}: {r.process.poll()}\n{r.stdout}{r.stderr}" for r in self.ranks)
