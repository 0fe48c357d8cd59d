#!/usr/bin/env python3
"""Starts `trainctl launch` many times and kills ranks and launchers at random moments.

  scripts/soak_launch.py [--launches 200] [--seed N] [--trainctl build/release/bin/trainctl] [--verbose]

After every launch: no process is left, no temporary folder is left, the exit code is the one that what happened calls
for, and the report names the rank that was killed, once. Ends with 1 at the first launch for which that does not hold.
"""
import argparse
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))

# Each rank prints, has a child in its group and one in a session of its own, and ends after a while.
WORKER = """
( sleep 300 & setsid sleep 300 & ) ; trap 'exit 75' USR1
i=0; while [ $i -lt $1 ]; do echo "rank $RANK line $i"; i=$((i+1)); sleep 0.01; done
"""
ACTIONS = ["nothing", "kill rank", "terminate rank", "segfault rank", "kill launcher", "terminate launcher",
           "interrupt launcher", "user signal", "kill guard", "two signals"]


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--launches", type=int, default=200)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--trainctl", default=str(ROOT / "build/release/bin/trainctl"))
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    if not os.access(args.trainctl, os.X_OK):
        sys.exit(f"soak_launch: {args.trainctl} is not a program; build first, or say --trainctl")
    return args


class Failed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


def rank_of(pid):
    try:
        environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return int(dict(entry.split(b"=", 1) for entry in environ if b"=" in entry)[b"RANK"])
    except (OSError, KeyError):
        return None


def rank_processes(launched, ranks, worker):
    """Process numbers by rank, of the shells that the launcher has started itself."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = {}
        for pid, command in launched.processes():
            rank = rank_of(pid)
            if str(worker) in command and rank is not None:
                found.setdefault(rank, pid)
        if len(found) == ranks:
            return found
        time.sleep(0.005)
    raise Failed("the ranks did not start")


def one(number, random_source, folder, worker, verbose):
    from launching import Launched
    ranks = random_source.randint(1, 5)
    action = random_source.choice(ACTIONS)
    restarts = random_source.choice([0, 0, 2])
    temporary = pathlib.Path(tempfile.mkdtemp(dir=folder))
    output = open(temporary.with_suffix(".out"), "w+")
    errors = open(temporary.with_suffix(".err"), "w+")
    lines = 20 if action == "nothing" else 100000
    with Launched("--nproc", ranks, "--max-restarts", restarts, "--grace-period", "5", "--", "sh", worker, lines,
                  stdout=output, stderr=errors, TMPDIR=temporary) as launched:
        victim, expected = None, {0}
        if action != "nothing":
            processes = rank_processes(launched, ranks, worker)
            time.sleep(random_source.uniform(0, 0.1))
            victim = random_source.randrange(ranks)
            expected = act(action, launched, processes[victim], restarts)
        try:
            code = launched.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            raise Failed(f"{action}: it does not end") from None
        left = launched.gone(3)
    errors.seek(0)
    output.seek(0)
    said = errors.read()
    if verbose:
        print(f"{number}: {ranks} ranks, {restarts} restarts, {action}: exit {code}")
    where = f"launch {number} ({ranks} ranks, {restarts} restarts, {action}, victim {victim})"
    check(left == [], f"{where} left {left}\n{said}")
    check(list(temporary.iterdir()) == [], f"{where} left {list(temporary.iterdir())}")
    check(code in expected, f"{where} ended with {code}, not {expected}\n{said}")
    torn = [line for line in output.read().splitlines() if not re.fullmatch(r"(\[\d\] )?rank \d line \d+", line)]
    check(torn[:-1] == [] or code == -9, f"{where} printed {torn[:3]}")
    check_report(where, action, victim, said)
    temporary.rmdir()
    for stream in (output, errors):
        stream.close()
        os.unlink(stream.name)


def act(action, launched, pid, restarts):
    """Does it, and says which exit codes are right."""
    launcher = launched.process
    if action.endswith("rank"):
        number = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "segfault": signal.SIGSEGV}[action.split()[0]]
        os.kill(pid, number)
        if restarts:  # the next attempt works on; end it as a user would
            time.sleep(1)
            launcher.send_signal(signal.SIGTERM)
            return {128 + signal.SIGTERM}
        return {128 + number}
    if action == "kill guard":
        for guard, command in launched.processes():
            if "launch-guard" in command:
                os.kill(guard, signal.SIGKILL)
        if restarts:
            time.sleep(1)
            launcher.send_signal(signal.SIGTERM)
            return {128 + signal.SIGTERM}
        return {128 + signal.SIGKILL}
    if action == "user signal":
        launcher.send_signal(signal.SIGUSR1)
        return {75, 128 + signal.SIGUSR1}  # before or after the shell's trap was set
    number = {"kill launcher": signal.SIGKILL, "terminate launcher": signal.SIGTERM, "two signals": signal.SIGTERM,
              "interrupt launcher": signal.SIGINT}[action]
    launcher.send_signal(number)
    if action == "two signals":
        time.sleep(0.15)
        launcher.send_signal(signal.SIGTERM)
    return {-9} if action == "kill launcher" else {128 + number}


def check_report(where, action, victim, said):
    reports = re.findall(r"rank (\d) on \S+ was killed by (\w+)", said)
    if action.endswith("rank"):
        names = {"kill rank": "SIGKILL", "terminate rank": "SIGTERM", "segfault rank": "SIGSEGV"}
        check(reports == [(str(victim), names[action])], f"{where} reported {reports}\n{said}")
    elif action != "kill guard":
        check(reports == [], f"{where} reported {reports}\n{said}")


def main():
    args = parse()
    os.environ["TRAINCTL_BIN"] = str(pathlib.Path(args.trainctl).resolve().parent)
    random_source = random.Random(args.seed)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        worker = pathlib.Path(folder) / "worker.sh"
        worker.write_text(WORKER)
        for number in range(args.launches):
            try:
                one(number, random_source, folder, worker, args.verbose)
            except Failed as failure:
                print(f"soak_launch: seed {args.seed}: {failure}", file=sys.stderr)
                return 1
    print(f"{args.launches} launches in {time.monotonic() - begin:.0f} s, seed {args.seed}: nothing left, every message right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
