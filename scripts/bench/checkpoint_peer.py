#!/usr/bin/env python3
"""One side of scripts/bench/checkpoint: saves or loads a state of so many bytes, and prints the seconds as JSON.

The state is what a training loop of PyTorch would save: parameters and two moments of AdamW, one large tensor in each
and a few small ones. What does not sync by itself is synced here, for a checkpoint that a crash may take is none.
"""
import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import torch

SMALL = (512, 2048)
SMALL_COUNT = 8
PIECE = 8 << 20


def make_state(size):
    generator = torch.Generator().manual_seed(1)
    third = size // 12  # elements of fp32 in one of the three parts
    rows = max(1, (third - SMALL_COUNT * SMALL[0] * SMALL[1]) // 512)
    part = lambda: {"embedding": torch.rand(rows, 512, generator=generator),
                    **{f"layer.{i}": torch.rand(SMALL, generator=generator) for i in range(SMALL_COUNT)}}
    return {name: part() for name in ("model", "exp_avg", "exp_avg_sq")}


def sync(path):
    for name in (path, Path(path).parent):
        fd = os.open(name, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def timed(function):
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def read_all(state):
    """Touches every byte; the cheapest reduction that does."""
    return sum(tensor.view(torch.int64).sum().item() for part in state.values() for tensor in part.values())


def raw_save(folder, size):
    data = memoryview(bytearray(os.urandom(PIECE)))

    def write():
        fd = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT, 0o666)
        for begin in range(0, size, PIECE):
            os.write(fd, data[:min(PIECE, size - begin)])
        os.fsync(fd)
        os.close(fd)
        sync(folder / "raw")
    return {"save": timed(write)[0]}


def raw_load(folder, size):
    buffer = bytearray(PIECE)

    def read():
        with open(folder / "raw", "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return {"read": timed(read)[0]}


def torch_save(folder, size):
    state = make_state(size)

    def save():
        torch.save(state, folder / "state.pt")
        sync(folder / "state.pt")
    return {"save": timed(save)[0]}


def torch_load(folder, size, mmap=False):
    begin = time.perf_counter()
    state = torch.load(folder / "state.pt", mmap=mmap)
    ready = time.perf_counter() - begin
    read_all(state)
    return {"ready": ready, "read": time.perf_counter() - begin}


def join_group():
    """Of this process alone: saving in the background asks for one."""
    file = tempfile.NamedTemporaryFile(delete=False)
    torch.distributed.init_process_group("gloo", init_method=f"file://{file.name}", rank=0, world_size=1)


def dcp_save(folder, size):
    import torch.distributed.checkpoint as dcp
    join_group()
    state = make_state(size)
    return {"save": timed(lambda: dcp.save(state, checkpoint_id=folder / "dcp"))[0]}


def dcp_async_save(folder, size):
    """The second save: the first one makes what later ones reuse."""
    import torch.distributed.checkpoint as dcp
    join_group()
    state, result = make_state(size), {}
    for number in range(2):
        begin = time.perf_counter()
        future = dcp.async_save(state, checkpoint_id=folder / f"dcp{number}")
        stall = time.perf_counter() - begin
        getattr(future, "upload_completion", future).result()
        result = {"stall": stall, "save": time.perf_counter() - begin}
    return result


def dcp_load(folder, size, name="dcp"):
    import torch.distributed.checkpoint as dcp
    join_group()
    state = {part: {key: torch.empty_like(tensor) for key, tensor in tensors.items()}
             for part, tensors in make_state(size).items()}
    begin = time.perf_counter()
    dcp.load(state, checkpoint_id=folder / name)
    ready = time.perf_counter() - begin
    read_all(state)
    return {"ready": ready, "read": time.perf_counter() - begin}


MODES = {
    "raw": (raw_save, raw_load),
    "torch.save": (torch_save, torch_load),
    "torch.load mmap": (torch_save, lambda folder, size: torch_load(folder, size, mmap=True)),
    "dcp": (dcp_save, dcp_load),
    "dcp async": (dcp_async_save, lambda folder, size: dcp_load(folder, size, "dcp1")),
}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bytes", type=int, required=True)
    p.add_argument("--folder", type=Path, required=True)
    p.add_argument("mode", choices=MODES)
    p.add_argument("action", choices=["save", "load"])
    args = p.parse_args()
    result = MODES[args.mode][args.action == "load"](args.folder.resolve(), args.bytes)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
