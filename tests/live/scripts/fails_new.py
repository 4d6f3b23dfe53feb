"""A training whose newcomers fail as told, each in another place of the script; see --help."""

import argparse
import os
import resource
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import muster

LIMIT = 1 << 30
"""Bytes of a newcomer that asks for more."""


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--where", choices=("before", "wrap", "memory", "crash"))
    parser.add_argument("--release", default="go", help="a file that ends the training")
    return parser.parse_args()


def fail(asked: argparse.Namespace, where: str) -> None:
    """Fail here, if this is a newcomer that is to."""
    if os.environ["MUSTER_TASK"] == "worker-0" or asked.where != where:
        return
    if where == "before":
        Path("/scratch/vocabulary.txt").read_text(encoding="utf-8")
    elif where == "memory":
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        torch.empty(LIMIT, dtype=torch.uint8)
    elif where == "crash":
        os.abort()
    raise KeyError("this node has another version")


def main() -> None:
    """Train until the file is there."""
    asked = parse()
    fail(asked, "before")
    fail(asked, "crash")
    ctx = muster.init()
    fail(asked, "wrap")
    fail(asked, "memory")
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ctx.wrap(model, optimizer)
    ctx.data(TensorDataset(torch.randn(16, 4)), global_batch=16, steps=1_000_000)
    for (x,) in ctx.steps():
        optimizer.zero_grad()
        ctx.backward(model(x).square().mean(1))
        optimizer.step()
        if Path(asked.release).exists():
            ctx.stop()
        time.sleep(0.02)


main()
