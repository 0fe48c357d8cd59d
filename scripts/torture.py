#!/usr/bin/env python3
"""Kills training runs with signal 9 at random moments, over and over, and checks that nothing is lost.

  scripts/torture.py [--kills 200] [--ranks 1,2,3] [--steps 120] [--seed N] [--trainctl build/release/bin/trainctl]
                     [--folder DIR] [--verbose]

For each number of ranks one run is left alone. Others of the same config are killed: a random rank, all of them, or the
launcher, at a random moment or in the middle of a save (there is one every step), sometimes restarted by the launcher
itself, otherwise started again by hand. It is the hardest config there is: dropout, shuffling, accumulation, fp16 with
a loss scale that moves, deterministic. After every kill: the newest complete checkpoint is no older than before, the
next start takes exactly that one, and metrics.jsonl shows no step twice. At the end of each run its parameters' hash,
on every rank, and every line of its metrics are those of the run that was left alone. Ends with 1 at the first run for
which that does not hold, and keeps its folder.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
MEANINGFUL = ("step", "loss", "grad_norm", "learning_rate", "tokens", "loss_scale")
TARGETS = ["rank", "rank", "rank", "rank 0", "all ranks", "everything", "launcher"]
PATIENCE = 120  # seconds until something must have happened


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kills", type=int, default=200, help="in all")
    p.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 3])
    p.add_argument("--steps", type=int, default=120, help="of one run")
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--trainctl", default=str(ROOT / "build/release/bin/trainctl"))
    p.add_argument("--folder", help="where the runs are written; left out: a temporary folder")
    p.add_argument("--verbose", action="store_true")
    args = p.parse_args()
    if not os.access(args.trainctl, os.X_OK):
        sys.exit(f"torture: {args.trainctl} is not a program; build first, or say --trainctl")
    return args


class Failed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


def config(steps):
    from mini import config_with
    return config_with(
        training__max_steps=steps, training__micro_batch_size=1, training__global_batch_size=12, model__dropout=0.3,
        precision__dtype="fp16", precision__grad_scaler={"init_scale": 2.0**20, "growth_interval": 3},
        backend__deterministic=True, checkpoint__interval=1, validation__interval=25, lr_scheduler__warmup_steps=5)


class Run:
    """One run's folder, and what can be seen in it from outside."""

    def __init__(self, folder, ranks, steps):
        from mini import TEXT, write
        folder.mkdir(parents=True)
        write(folder, config(steps), TEXT * 2)
        self.folder, self.ranks = folder, ranks
        self.checkpoints = folder / "runs/mini/checkpoints"
        self.newest_seen = 0

    def start(self, restarts):
        from launching import Launched
        self.out, self.err = open(self.folder / "out", "w"), open(self.folder / "err", "w")
        return Launched("--nproc", self.ranks, "--max-restarts", restarts, "config.json", "--print-param-hash",
                        cwd=self.folder, stdout=self.out, stderr=self.err)

    def said(self):
        return (self.folder / "out").read_text() + (self.folder / "err").read_text()

    def names(self):
        try:
            return os.listdir(self.checkpoints)
        except FileNotFoundError:
            return []

    def newest(self):
        """The newest step whose folder has its marker."""
        steps = [int(name[5:]) for name in self.names() if re.fullmatch(r"step-\d+", name)]
        return max((s for s in steps if (self.checkpoints / f"step-{s}/COMPLETE").exists()), default=0)

    def saving(self):
        return any(".partial-" in name for name in self.names())

    def lines(self, torn=False):
        """Lines of steps in metrics.jsonl; the last one may be torn while nobody has mended it."""
        path = self.folder / "runs/mini/metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        if torn:
            text = text[:text.rfind("\n") + 1]
        return [line for line in map(json.loads, text.splitlines()) if "loss" in line]

    def check_after_death(self):
        newest = self.newest()
        check(newest >= self.newest_seen, f"checkpoint of step {self.newest_seen} is gone, the newest is {newest}")
        self.newest_seen = newest
        numbers = [line["step"] for line in self.lines(torn=True)]
        check(numbers == list(range(1, len(numbers) + 1)), f"metrics show the steps {numbers}")
        check(len(numbers) >= newest, f"metrics end at step {len(numbers)}, before the checkpoint of step {newest}")

    def check_resumption(self, expected):
        """The last start took the newest complete checkpoint that there was."""
        taken = re.findall(r"resuming from \S+ at step (\d+)", self.said())
        check(not taken or int(taken[-1]) == expected, f"resumed at step {taken}, but step {expected} was complete")
        check("passed over" not in self.said(), "a checkpoint was damaged")


def rank_processes(launched):
    """Process numbers of the ranks of this moment."""
    return [pid for pid, command in launched.processes() if " run config.json" in command]


def wait_for(condition, launched, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if launched.process.poll() is not None:
            return False
        check(time.monotonic() < deadline, f"{what} did not happen within {PATIENCE} s")
        time.sleep(0.0005)
    return True


def wait_for_a_moment(run, launched, random_source):
    """A random moment of the run's life: while it starts, between steps, or inside a save. False: it has ended."""
    if not wait_for(lambda: len(rank_processes(launched)) == run.ranks, launched, "the start"):
        return None
    kind = random_source.choice(["start", "any", "any", "save", "save"])
    if kind == "start":
        time.sleep(random_source.uniform(0, 0.5))
        return kind
    before = run.newest()
    if not wait_for(lambda: run.newest() > before, launched, f"a checkpoint after step {before}"):
        return None
    time.sleep(random_source.uniform(0, 0.3 if kind == "any" else 0.02))
    if kind == "save" and not wait_for(run.saving, launched, "a save"):
        return None
    time.sleep(random_source.uniform(0, 0.004) if kind == "save" else 0)
    return kind


def kill(target, launched, random_source):
    """Sends the signals; True when the launcher itself was among the killed."""
    ranks = rank_processes(launched)
    random_source.shuffle(ranks)
    victims = {"rank": ranks[:1], "rank 0": [p for p in ranks if rank_of(p) == 0], "all ranks": ranks,
               "everything": [launched.process.pid, *ranks], "launcher": [launched.process.pid]}[target]
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return launched.process.pid in victims


def rank_of(pid):
    try:
        environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    return next((int(entry[5:]) for entry in environ if entry.startswith(b"RANK=")), None)


def live_and_die(run, random_source, kills_left, by_launcher, verbose):
    """One start of the run, to its end or death. Returns (finished, kills)."""
    expected, kills = run.newest(), 0
    with run.start(restarts=1000 if by_launcher else 0) as launched:
        while kills < kills_left:
            kind = wait_for_a_moment(run, launched, random_source)
            if kind is None:
                break
            target = random_source.choice(["rank", "rank 0", "all ranks"] if by_launcher else TARGETS)
            was = set(rank_processes(launched))
            launcher_died = kill(target, launched, random_source)
            kills += 1
            if verbose:
                print(f"  {run.folder.name}: killed {target} ({kind}), newest checkpoint {run.newest()}", flush=True)
            if not by_launcher or launcher_died:
                break
            wait_for(lambda: not was & set(rank_processes(launched)), launched, "the end of the killed attempt")
            run.check_after_death()
        try:
            code = launched.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed("the launcher does not end") from None
        left = launched.gone(30)
    check(left == [], f"processes are left: {left}")
    check(code in (0, 75, 128 + 9, -9), f"exit code {code}")
    run.check_after_death()
    if not by_launcher:
        run.check_resumption(expected)
    return code == 0, kills


def compare(run, gold_hash, gold_lines):
    hashes = re.findall(r"param_hash (\w+)", run.said())
    check(len(hashes) == run.ranks and set(hashes) == {gold_hash}, f"param_hash {hashes}, not {gold_hash}")
    lines = [[line.get(key) for key in MEANINGFUL] for line in run.lines()]
    for ours, theirs in zip(lines, gold_lines):
        check(ours == theirs, f"metrics differ: {ours}, not {theirs}")
    check(len(lines) == len(gold_lines), f"{len(lines)} lines of metrics instead of {len(gold_lines)}")


def untouched(folder, ranks, steps):
    run = Run(folder, ranks, steps)
    with run.start(0) as launched:
        code = launched.process.wait(timeout=600)
    check(code == 0, f"{folder.name} ended with {code}\n{run.said()}")
    hashes = set(re.findall(r"param_hash (\w+)", run.said()))
    check(len(hashes) == 1, f"ranks disagree: {hashes}")
    lines = [[line.get(key) for key in MEANINGFUL] for line in run.lines()]
    check(len(lines) == steps, f"{len(lines)} lines of metrics after {steps} steps")
    return hashes.pop(), lines


def torture(folder, ranks, kills, args, random_source):
    gold_hash, gold_lines = untouched(folder / f"{ranks}-ranks-untouched", ranks, args.steps)
    done, number = 0, 0
    while done < kills:
        number += 1
        run = Run(folder / f"{ranks}-ranks-{number}", ranks, args.steps)
        try:
            finished = False
            while not finished:
                by_launcher = random_source.random() < 0.25
                finished, more = live_and_die(run, random_source, kills - done, by_launcher, args.verbose)
                done += more
            compare(run, gold_hash, gold_lines)
        except Failed as failure:
            raise Failed(f"{run.folder}: {failure}\n{run.said()[-3000:]}") from None
    print(f"{ranks} ranks: {done} kills in {number} runs, each ended as the untouched one", flush=True)


def main():
    args = parse()
    os.environ["TRAINCTL_BIN"] = str(pathlib.Path(args.trainctl).resolve().parent)
    random_source = random.Random(args.seed)
    begin = time.monotonic()
    folder = pathlib.Path(args.folder or tempfile.mkdtemp(prefix="torture-"))
    shares = [args.kills // len(args.ranks) + (i < args.kills % len(args.ranks)) for i in range(len(args.ranks))]
    try:
        for ranks, kills in zip(args.ranks, shares):
            torture(folder, ranks, kills, args, random_source)
    except Failed as failure:
        print(f"torture: seed {args.seed}: {failure}", file=sys.stderr)
        return 1
    if not args.folder:
        shutil.rmtree(folder)
    print(f"{args.kills} kills in {time.monotonic() - begin:.0f} s, seed {args.seed}: nothing lost, no step twice")
    return 0


if __name__ == "__main__":
    sys.exit(main())
