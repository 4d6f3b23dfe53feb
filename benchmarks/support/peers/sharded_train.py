"""A transformer in parts: by Muster, or by torch's fully_shard (FSDP2); marks each step."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.peers.models import Marks, threads_from_environment
from support.peers.sharded_models import kept_bytes, losses, make


def main() -> None:
    """Train as told; the memory goes to a file beside the marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=("muster", "fsdp"), required=True)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--words", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16, help="of all workers together")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--out", required=True, help="folder of the marks")
    parser.add_argument("--block", type=int, default=0, help="wait for a sign every N steps")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-mirror", action="store_true")
    options = parser.parse_args()
    threads_from_environment()
    if options.device == "cuda":  # a host of its own for NCCL, even on one GPU
        os.environ["NCCL_HOSTID"] = os.environ.get("MUSTER_TASK") or f"rank-{os.environ['RANK']}"
        torch.cuda.set_device(int(os.environ.get("RANK", "0")) % torch.cuda.device_count())
    (train_muster if options.by == "muster" else train_fsdp)(options)


def train_muster(options: Any) -> None:
    """As a user of Muster does."""
    import muster

    model, data = make(options.width, options.layers, options.words)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ctx = muster.init()
    ctx.wrap(model, optimizer, shard=True, mirror=not options.no_mirror)
    ctx.data(TensorDataset(data), options.batch, steps=options.steps, shuffle=False)
    task = os.environ.get("MUSTER_TASK", "worker-0")
    marks = Marks(options.out, task)
    for (x,) in ctx.steps():
        optimizer.zero_grad()
        ctx.backward(losses(model, x))
        optimizer.step()
        marks.mark(ctx.step + 1, ctx.workers, ctx.share)
        note(options, task, ctx.step + 1, kept_bytes(model, optimizer))
        marks.gate(ctx.step + 1, options.block)


def train_fsdp(options: Any) -> None:
    """As torch's documentation does."""
    from torch.distributed.fsdp import fully_shard

    cuda = options.device == "cuda"
    distributed.init_process_group("nccl" if cuda else "gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    mesh = distributed.device_mesh.init_device_mesh(options.device, (size,))
    model, data = make(options.width, options.layers, options.words)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    marks, share, step = Marks(options.out, f"rank-{rank}"), options.batch // size, 0
    while step < options.steps:
        first = (step * options.batch + rank * share) % (len(data) - share)
        optimizer.zero_grad()
        x = data[first : first + share].to(options.device)
        losses(model, x).mean().backward()
        optimizer.step()
        step += 1
        if cuda:
            torch.cuda.synchronize()
        marks.mark(step, size, share)
        note(options, f"rank-{rank}", step, kept_bytes(model, optimizer))
        marks.gate(step, options.block)
    distributed.destroy_process_group()


def note(options: Any, task: str, step: int, kept: int) -> None:
    """Write what a worker keeps after some steps, and its peak on a GPU."""
    if step == 3:
        peak = torch.cuda.max_memory_allocated() if options.device == "cuda" else 0
        Path(options.out, f"{task}.memory").write_text(json.dumps([kept, peak]))


main()
