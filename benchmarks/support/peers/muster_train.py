"""The training that the runtime's benchmarks launch with Muster."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import muster

sys.path.insert(0, str(Path(__file__).parents[2]))
from support.peers.models import Marks, losses, make, threads_from_environment


def main() -> None:
    """Train as told, marking each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="wide")
    parser.add_argument("--batch", type=int, default=32, help="of all workers together")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--out", required=True, help="folder of the marks")
    parser.add_argument("--block", type=int, default=0, help="wait for a sign every N steps")
    parser.add_argument("--pace", default="", help="task=seconds,...: what a sample costs there")
    options = parser.parse_args()
    threads_from_environment()
    task = os.environ.get("MUSTER_TASK", "worker-0")
    each = float(dict(part.split("=") for part in options.pace.split(",") if part).get(task, 0.0))
    marks = Marks(options.out, task)

    def paced(model: Any, *batch: Any) -> Any:
        time.sleep(each * len(batch[0]))
        return losses(model, *batch)

    def done(ctx: Any) -> None:
        marks.mark(ctx.step + 1, ctx.workers, ctx.share)  # where it has no share, 0
        marks.gate(ctx.step + 1, options.block)

    model, optimizer, data = make(options.model)
    muster.Training(
        model=model, optimizer=optimizer, loss=paced if each else losses, dataset=data,
        global_batch=options.batch, steps=options.steps, on_step=done,
    ).run()  # fmt: skip
    marks.peak()


main()
