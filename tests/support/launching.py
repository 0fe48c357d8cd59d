"""Starting `trainctl launch` in tests, and finding what it may have left behind."""

import os
import pathlib
import subprocess
import sys
import time
import uuid

BIN = pathlib.Path(os.environ.get("TRAINCTL_BIN", "build/release/bin")).resolve()
SOURCE = pathlib.Path(os.environ.get("TRAINCTL_SOURCE", pathlib.Path(__file__).parents[2])).resolve()
TRAINCTL = BIN / "trainctl"
MARK = "TRAINCTL_TEST_MARK"
OF_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PET_", "TORCHELASTIC_", "TRAINCTL_")
ALSO = {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"}


def clean_environment(**more):
    """The environment without anything that a launcher reads."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OF_LAUNCHERS) and k not in ALSO}
    for name in ("TRAINCTL_BIN", "TRAINCTL_SOURCE"):
        if name in os.environ:
            kept[name] = os.environ[name]
    return {**kept, "PYTHON_EXEC": sys.executable, **{k: str(v) for k, v in more.items()}}


def launch(*arguments, cwd=None, timeout=120, **environment):
    """Runs the launcher to its end; text output."""
    return subprocess.run([str(TRAINCTL), "launch", *map(str, arguments)], cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=timeout, env=clean_environment(**environment))


class Launched:
    """A launcher in the background whose processes can be found by a mark in their environment."""

    def __init__(self, *arguments, cwd=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **environment):
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [str(TRAINCTL), "launch", *map(str, arguments)], cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout,
            stderr=stderr, text=True, env=clean_environment(**{MARK: self.mark}, **environment))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    def processes(self):
        """Numbers and command lines of all live processes below the launcher, itself left out."""
        return [entry for entry in marked(self.mark) if entry[0] != self.process.pid]

    def wait_for(self, count, timeout=20):
        """Waits until the ranks' commands show `count` live processes (and the guard)."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            workers = [p for p in self.processes() if "launch-guard" not in p[1] and str(TRAINCTL) not in p[1]]
            if len(workers) >= count:
                return workers
            time.sleep(0.01)
        raise AssertionError(f"{count} processes did not start: {self.processes()}")

    def gone(self, timeout=5):
        """Waits until no process is left; what is left after the time."""
        return wait_until_gone(self.processes, timeout)


def wait_until_gone(processes, timeout):
    deadline = time.monotonic() + timeout
    left = processes()
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = processes()
    return left


def marked(mark):
    """(number, command line) of live processes with the mark in environment or command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            command = (entry / "cmdline").read_bytes()
            dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            continue
        if not dead and int(entry.name) != os.getpid() and (mark.encode() in environ or mark.encode() in command):
            found.append((int(entry.name), command.replace(b"\0", b" ").decode(errors="replace").strip()))
    return found


def script(folder, text, name="worker.py"):
    path = pathlib.Path(folder) / name
    path.write_text(text)
    return path
