"""A training with 200 M frozen parameters and small trained ones beside them, as with LoRA."""

import argparse
import os
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

import muster

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.peers.models import threads_from_environment

WIDTH, RANK = 4096, 8


class Adapted(nn.Module):  # type: ignore[misc]
    """A frozen matrix with a trained one of rank 8 beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(WIDTH, WIDTH, bias=False).requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, RANK, bias=False), nn.Linear(RANK, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.frozen(x) + self.up(self.down(x))).tanh()


def main() -> None:
    """Train; write when each step began, and how much memory there was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, help="folder of the marks")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--unlike", action="store_true", help="each worker draws its own weights")
    options = parser.parse_args()
    threads_from_environment()
    torch.manual_seed(os.getpid() if options.unlike else 1)
    model = nn.Sequential(*(Adapted() for _ in range(options.layers)))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    x = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(2))  # the same everywhere
    ctx.data(TensorDataset(x, x.roll(1, 0)), global_batch=4, steps=1_000_000)
    with Path(options.out, f"{ctx.settings.task}.lora").open("a", buffering=1) as marks:
        between = time.monotonic()
        for a, b in ctx.steps():
            given = time.monotonic()
            optimizer.zero_grad()
            ctx.backward(mse_loss(model(a), b, reduction="none").mean(1))
            summed = time.monotonic()
            optimizer.step()
            after = time.monotonic()
            # What the runtime does before a batch, and around the update.
            print(given, given - between, after - summed, resident(), ctx.workers, file=marks)
            between = time.monotonic()


def resident() -> int:
    """Return this process's memory in bytes, without what it shares with its parent."""
    text = Path("/proc/self/smaps_rollup").read_text()
    parts = [line.split() for line in text.splitlines() if line.startswith(("Private_", "Pss_Anon"))]
    return 1024 * sum(int(part[1]) for part in parts if part[0].startswith("Private_"))


main()
