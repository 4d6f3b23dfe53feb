"""Models in parts: Muster against torch's fully_shard (FSDP2), in turns, on one machine.

The same transformer, batch and number of workers; blocks of steps take turns, so that both meet the
same machine. Bars: Muster's speed over FSDP2's around it (median of the blocks), what a worker keeps
between steps (parameters, gradients, optimiser state) without mirrors over FSDP2's, and with mirrors,
which keep every part twice, over twice FSDP2's. Then a resize in the middle: how long it stalls steps.

On one GPU each process gets an NCCL_HOSTID of its own, so that NCCL takes it for a host.
"""

import argparse
import json
import os
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from support.bars import bar, print_table

SPEED, KEPT = 0.9, 1.05
"""Targets: least speed over FSDP2's; most memory over what FSDP2 keeps (twice that with mirrors)."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small model, few turns, under 30 s")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--width", type=int, help="of the transformer, a multiple of 64")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--batch", type=int, help="of all workers together")
    parser.add_argument("--blocks", type=int, help="turns of each")
    options = parser.parse_args()
    small = {"width": 128, "layers": 3, "batch": 8, "blocks": 2}
    large = {"width": 512, "layers": 8, "batch": 16, "blocks": 6}
    for name, value in (small if options.quick else large).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    rows = [compare(options, mirror) for mirror in (True, False)]
    print_table(
        "mirrors steps/s FSDP2 speed kept-MB FSDP2-MB peak-MB FSDP2-MB", [r.cells for r in rows]
    )
    for row in rows:
        name = "with" if row.mirror else "without"
        bar(f"sharded-speed-{name}-mirrors", row.speed, SPEED, above=True)
        bar(f"sharded-kept-{name}-mirrors", row.kept, (2 if row.mirror else 1) * KEPT)
    pause, step = resized(options)
    joined = f"resized {options.workers} -> {options.workers + 1}"
    print(f"{joined}: stalled for {pause * 1e3:.0f} ms; a step takes {step * 1e3:.0f} ms")


class Compared:
    """What one comparison has shown."""

    def __init__(self, mirror: bool, turns: Any, memory: list[list[int]]) -> None:
        self.mirror, self.speed = mirror, turns.ratio
        (ours, peak), (theirs, their_peak) = memory
        self.kept = ours / theirs
        self.cells = (
            "yes" if mirror else "no", f"{turns.muster:.2f}", f"{turns.ddp:.2f}", f"{turns.ratio:.2f}",
            f"{ours / 1e6:.1f}", f"{theirs / 1e6:.1f}", f"{peak / 1e6:.0f}", f"{their_peak / 1e6:.0f}",
        )  # fmt: skip


def compare(options: argparse.Namespace, mirror: bool) -> Compared:
    """Let both train in turns."""
    from support.sharded_turns import sharded_turns

    with tempfile.TemporaryDirectory() as name:
        args = arguments(options) + ([] if mirror else ["--no-mirror"])
        turns = sharded_turns(Path(name), args, options.workers, options.blocks, environ(options))
        memory = [worst(Path(name, who)) for who in ("muster", "fsdp")]
    return Compared(mirror, turns, memory)


def arguments(options: argparse.Namespace) -> list[str]:
    """Return the model's, for both scripts."""
    names = ("width", "layers", "batch", "device")
    return [word for name in names for word in (f"--{name}", str(getattr(options, name)))]


def environ(options: argparse.Namespace) -> dict[str, str]:
    """Return what all processes need besides: on one GPU, sockets between hosts that are none."""
    if options.device == "cpu":
        return {}
    return {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"}


def worst(folder: Path) -> list[int]:
    """Return the most that any worker keeps, and the highest peak."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.memory")]
    return [max(each[place] for each in found) for place in (0, 1)]


def resized(options: argparse.Namespace) -> tuple[float, float]:
    """Return the stall of a worker that joins, as the members report it, and a step's seconds."""
    from muster.runtime.launch.launcher import Launch
    from support.runtime_marks import read_marks
    from support.runtime_peers import PATIENCE, SCRIPTS

    with tempfile.TemporaryDirectory() as name:
        args = ["--by", "muster", *arguments(options), "--out", name]
        more = os.environ | environ(options)
        script = SCRIPTS / "sharded_train.py"
        with Launch(script, args, options.workers, threads=1, logs=name, environ=more) as job:
            job.wait_step(5, PATIENCE)
            job.resize(options.workers + 1)
            job.wait_members(options.workers + 1, PATIENCE)
            job.wait_step(job.history.step + 3, PATIENCE)
            changes = job.look(lambda history: list(history.changes))
        marks = read_marks(Path(name, "worker-0.marks"))
    steps = [after.at - before.at for before, after in pairwise(marks[1:5])]
    return changes[-1].pause, median(steps)


if __name__ == "__main__":
    main()
