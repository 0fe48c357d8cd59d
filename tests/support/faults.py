"""Runs under a file system that fails (tests/support/faulty_io.c), and what they leave."""

import hashlib
import json
import pathlib
import re
import subprocess
import time

from mini import BIN, TRAINCTL, config_with, trainctl, write

SHIM = BIN / "faulty_io.so"


def synchronous(**changes):
    """A config whose saves happen in the step itself, so that their steps are known."""
    schema = json.loads(trainctl("config", "schema").stdout)
    if "async" in json.dumps(schema.get("properties", {}).get("checkpoint", schema)):
        changes = {"checkpoint__async": False, **changes}
    return config_with(**changes)


def faulty(path, rules, log=None):
    """The environment of a run for which calls on paths that match `path` obey `rules`."""
    environment = {"LD_PRELOAD": str(SHIM), "FAULTY_IO_PATH": path, "FAULTY_IO": rules}
    return {**environment, "FAULTY_IO_LOG": str(log)} if log else environment


def checkpoints(folder, name="mini"):
    return pathlib.Path(folder) / "runs" / name / "checkpoints"


def saved_steps(folder, name="mini"):
    """Steps with a marker, ascending."""
    found = [p.name for p in checkpoints(folder, name).glob("step-*") if (p / "COMPLETE").exists()]
    return sorted(int(n[5:]) for n in found if re.fullmatch(r"step-\d+", n))


def leftovers(folder, name="mini"):
    run = pathlib.Path(folder) / "runs" / name
    return [str(p) for p in run.rglob("*") if ".tmp" in p.name or ".partial" in p.name or ".removed" in p.name]


def contents(folder):
    """Checksums of everything below a folder, by relative path."""
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file()}


class Running:
    """A run in the background, for faults that come and go while it trains."""

    def __init__(self, folder, config, command=None, **kwargs):
        write(folder, config)
        self.folder = folder
        self.err = open(pathlib.Path(folder) / "err", "w+")
        self.process = subprocess.Popen(command or [str(TRAINCTL), "run", "config.json"], cwd=folder,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.err, text=True,
                                        **kwargs)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.err.close()

    def said(self):
        return (pathlib.Path(self.folder) / "err").read_text()

    def wait_until(self, condition, timeout=60):
        deadline = time.monotonic() + timeout
        while not condition():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}\n{self.said()}"
            assert time.monotonic() < deadline, f"that did not happen in time\n{self.said()}"
            time.sleep(0.01)

    def ends(self, timeout=60):
        return self.process.wait(timeout)
