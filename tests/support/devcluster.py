"""A real Slurm on this machine (scripts/slurm/devcluster.sh), and jobs on it."""

import os
import pathlib
import shutil
import subprocess
import time

from mini import SOURCE, TRAINCTL

SCRIPTS = SOURCE / "scripts" / "slurm"


def why_not():
    """Why this machine cannot run a Slurm; empty when it can."""
    if os.geteuid() != 0:
        return "not root"
    missing = [tool for tool in ("munged", "slurmctld", "slurmd", "sbatch") if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not installed (scripts/setup.sh --tests brings it on Debian)"
    made = subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True, text=True)
    return "" if made.returncode == 0 else f"namespaces may not be made ({made.stderr.strip()})"


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def devcluster(self, command):
        return subprocess.run([SCRIPTS / "devcluster.sh", command, self.folder], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120)

    def start(self):
        started = self.devcluster("start")
        assert started.returncode == 0, started.stderr
        return self

    def stop(self):
        assert self.devcluster("stop").returncode == 0

    def run(self, *command, cwd=None, timeout=120, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        environment.update({"SLURM_CONF": str(self.folder / "slurm.conf"), "TRAINCTL": str(TRAINCTL)}, **variables)
        return subprocess.run([str(word) for word in command], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout)

    def submit(self, script, *flags, cwd, **variables):
        """Submits one of scripts/slurm as it is; returns the job's number."""
        done = self.run("sbatch", "--parsable", *flags, SCRIPTS / script, cwd=cwd, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def fields(self, job):
        """What Slurm knows of a job: JobState, ExitCode, Restarts …"""
        shown = self.run("scontrol", "--oneliner", "show", "job", job)
        assert shown.returncode == 0, shown.stderr
        return dict(word.split("=", 1) for word in shown.stdout.splitlines()[0].split() if "=" in word)

    def wait(self, job, timeout=120):
        """Until the job has ended; returns its state and exit code."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            fields = self.fields(job)
            if fields["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED"):
                return fields["JobState"], int(fields["ExitCode"].split(":")[0])
            time.sleep(0.2)
        raise AssertionError(f"job {job} has not ended within {timeout} s: {fields}")

    def finish(self, script, *flags, cwd, expect=0, timeout=120, **variables):
        """Submits, waits, checks the exit code, and returns what the job has printed."""
        job = self.submit(script, *flags, cwd=cwd, **variables)
        state, code = self.wait(job, timeout)
        text = "".join(path.read_text() for path in sorted(pathlib.Path(cwd).glob(f"trainctl-{job}*.log")))
        assert code == expect and state == ("FAILED" if expect else "COMPLETED"), f"{state} {code}\n{text}"
        return text
