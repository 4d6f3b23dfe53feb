"""A small training whose steps may need something that all jobs of a node share; see --help.

The shared thing is a lock on a file of the node: a step that holds it for a while makes the others
wait, as a step that fills a memory bus does, and by as much on a busy machine as on an idle one.
"""

import argparse
import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.live.scripts.uncompiled import leave_compiler_out

SAMPLES, INPUTS = 4, 2


def main() -> None:
    """Train until the file `go` is there."""
    leave_compiler_out()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--buses", type=Path, help="folder of what nodes share; none: needs nothing")
    parser.add_argument("--pace", type=float, default=0.05, help="seconds of a step")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    inputs = torch.randn(SAMPLES, INPUTS)
    model = nn.Linear(INPUTS, 1)

    def losses(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with bus(asked.buses):
            time.sleep(asked.pace)
        return (net(x) - y).square().mean(1)

    muster.Training(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.001),
        loss=losses,
        dataset=TensorDataset(inputs, inputs.sum(1, keepdim=True)),
        global_batch=SAMPLES,
        steps=100_000,
        until=lambda ctx: Path("go").exists(),
    ).run()


@contextmanager
def bus(buses: Path | None) -> Iterator[None]:
    """Hold what the jobs of this node share."""
    if buses is None:
        yield
        return
    with (buses / os.environ["MUSTER_NODE"]).open("a") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)
        yield


main()
