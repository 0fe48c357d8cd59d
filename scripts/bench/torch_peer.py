"""Trains the model of a trainctl config in PyTorch, as the peer of vs_pytorch; under torchrun with
DistributedDataParallel over Gloo, as the peer of parallel: every rank its own batch, rank 0 prints for all.

Prints one JSON object per line: {"event": "first_step", "seconds": since process start}, then
{"event": "interval", "step", "loss", "tokens_per_second"} per logging interval, then {"event": "done", …}.
"""
import argparse
import json
import os
import resource
import time


def seconds_since_process_start() -> float:
    """From the kernel's record of when the process began, so that the interpreter's start counts."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as f:
        uptime = float(f.read().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")


import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class GptBlock(nn.Module):
    def __init__(self, m):
        super().__init__()
        d = m["d_model"]
        self.n_heads = m["n_heads"]
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, m["d_ff"]), nn.Linear(m["d_ff"], d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(d, dim=2)
        q, k, v = (z.view(b, t, self.n_heads, d // self.n_heads).transpose(1, 2) for z in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(b, t, d))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """nanoGPT's model: learned positions, pre-norm, exact GELU, tied head."""

    def __init__(self, m):
        super().__init__()
        d = m["d_model"]
        self.token = nn.Embedding(m["vocab_size"], d)
        self.position = nn.Embedding(m["max_seq_len"], d)
        self.blocks = nn.ModuleList(GptBlock(m) for _ in range(m["n_layers"]))
        self.norm = nn.LayerNorm(d)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        for block in self.blocks:
            for name in ("qkv", "out", "up", "down"):
                nn.init.zeros_(getattr(block, name).bias)
            for name in ("out", "down"):
                nn.init.normal_(getattr(block, name).weight, std=0.02 / (2 * m["n_layers"]) ** 0.5)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.token.weight)


class Encoder(nn.Module):
    """The reference TinyTransformer (requirement R8) on PyTorch's own encoder."""

    def __init__(self, m):
        super().__init__()
        d = m["d_model"]
        self.token = nn.Embedding(m["vocab_size"], d)
        self.position = nn.Embedding(m["max_seq_len"], d)
        layer = nn.TransformerEncoderLayer(
            d, m["n_heads"], m["d_ff"], m["dropout"], activation="relu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, m["n_layers"], enable_nested_tensor=False)
        self.head = nn.Linear(d, m["vocab_size"])

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.encoder(x))


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("config")
    p.add_argument("--mode", choices=["eager", "fused", "compile"], required=True)
    p.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--overfit-one-batch", action="store_true")
    return p.parse_args()


def main():
    args = parse()
    with open(args.config) as f:
        config = json.load(f)
    torch.set_num_threads(args.threads)
    torch.manual_seed(config["run"]["seed"])
    m, t, o = config["model"], config["training"], config["optimizer"]
    batch, seq = t["micro_batch_size"], config["data"]["seq_len"]
    causal = m["type"] == "gpt"
    model = (Gpt if causal else Encoder)(m)
    model.train()
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)

    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    make = torch.optim.AdamW if o["type"] == "adamw" else torch.optim.Adam
    optimizer = make(
        [{"params": decay}, {"params": rest, "weight_decay": 0.0}], lr=o["learning_rate"],
        betas=tuple(o["betas"]), eps=o["eps"], weight_decay=o["weight_decay"],
        fused=True if args.mode != "eager" else None)

    tokens = torch.randint(m["vocab_size"], (config["data"]["synthetic_sequences"], seq + causal))
    labels = tokens[:, 1:] if causal else torch.randint(m["vocab_size"], tokens.shape)
    inputs = tokens[:, :seq]

    def loss_of(x, y):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bf16"):
            return F.cross_entropy(model(x).view(-1, m["vocab_size"]), y.reshape(-1))

    if args.mode == "compile":
        loss_of = torch.compile(loss_of)

    steps, interval = args.steps or t["max_steps"], config["logging"]["interval"]
    first, since, cpu_since = None, time.perf_counter(), time.process_time()
    for step in range(1, steps + 1):
        at = 0 if args.overfit_one_batch else ((step - 1) * ranks + rank) * batch % (len(tokens) - batch + 1)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs[at:at + batch], labels[at:at + batch])
        loss.backward()
        if t["max_grad_norm"] > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), t["max_grad_norm"])
        optimizer.step()
        if first is None:
            loss.item()
            first = seconds_since_process_start()
            if rank == 0:
                print(json.dumps({"event": "first_step", "seconds": round(first, 3)}), flush=True)
        if step % interval == 0:
            value, now, cpu_now = loss.item(), time.perf_counter(), time.process_time()
            tokens_done = interval * batch * seq * ranks
            if rank == 0:
                print(json.dumps({"event": "interval", "step": step, "loss": value,
                                  "tokens_per_second": tokens_done / (now - since),
                                  "tokens_per_cpu_second": tokens_done / (cpu_now - cpu_since)}), flush=True)
            since, cpu_since = now, cpu_now
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if ranks > 1:
        torch.distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps({"event": "done", "first_step_seconds": first, "peak_bytes": peak}), flush=True)


if __name__ == "__main__":
    main()
