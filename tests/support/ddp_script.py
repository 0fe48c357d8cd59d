"""A small PyTorch DDP program over Gloo, as torchrun's users write them; prints what every rank computed."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    first = torch.ones(1)
    dist.all_reduce(first)
    if "--first" in sys.argv:  # for the bench: when the first all-reduce was done
        if rank == 0:
            print("first all-reduce", time.time(), flush=True)
        dist.destroy_process_group()
        return
    torch.manual_seed(7)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(100 + rank)
    for step in range(5):
        loss = model(torch.randn(16, 8, generator=data)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if "--fail" in sys.argv and step == 3 and rank == 1:
            raise ValueError("a defect in rank 1")
        print(f"rank {rank} of {world} on GPU slot {os.environ['LOCAL_RANK']}: step {step} loss {loss.item():.9f}")
    total = sum(p.double().sum() for p in model.parameters()).item()
    print(f"rank {rank}: sum {total:.12f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
