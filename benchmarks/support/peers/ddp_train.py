"""The same training in DistributedDataParallel, from checkpoint to checkpoint; for torchrun, too."""

import argparse
import os
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.peers.models import Marks, losses, make, threads_from_environment


def main() -> None:
    """Load where there is something to load, train, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="wide")
    parser.add_argument("--batch", type=int, default=32, help="of all workers together")
    parser.add_argument("--steps", type=int, default=1_000_000, help="to do in this process")
    parser.add_argument("--out", required=True, help="folder of the marks")
    parser.add_argument("--block", type=int, default=0, help="wait for a sign every N steps")
    parser.add_argument("--views", action="store_true", help="gradients are views of the buckets")
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--every", type=int, default=0, help="save every N steps")
    options = parser.parse_args()
    threads_from_environment()
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    name, optimizer, data = make(options.model)
    step = load(options.checkpoint, name, optimizer)
    model = DistributedDataParallel(name, gradient_as_bucket_view=options.views)
    last = step + options.steps
    marks = Marks(options.out, f"rank-{rank}-{os.getpid()}")
    share = options.batch // size
    while step < last:
        first = (step * options.batch + rank * share) % (len(data) - share)
        batch = data[first : first + share]
        optimizer.zero_grad()
        losses(model, *batch).mean().backward()
        optimizer.step()
        step += 1
        marks.mark(step, size, share)
        marks.gate(step, options.block)
        if options.every and step % options.every == 0 and rank == 0:
            save(options.checkpoint, step, name, optimizer)
    if options.checkpoint and rank == 0 and not options.every:
        save(options.checkpoint, step, name, optimizer)
    marks.peak()
    distributed.destroy_process_group()


def load(path: str, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """The step that the checkpoint was saved at; 0 without one."""
    if not path or not Path(path).exists():
        return 0
    found = torch.load(path, weights_only=True)
    model.load_state_dict(found["model"])
    optimizer.load_state_dict(found["optimizer"])
    return int(found["step"])


def save(path: str, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write beside, then rename: a restart never finds half a file."""
    state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, f"{path}.new")
    Path(f"{path}.new").replace(path)


main()
