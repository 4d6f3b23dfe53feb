"""What it costs to compare members in every step, and to give a joiner 200 M frozen parameters.

checksum  thread time of a step's checksums, over a whole cycle, against thread time of plain steps of
          the same model in the same process, on one core
join      a model with 201 M frozen parameters (805 MB) and 0.8 M trained ones (LoRA) goes from one
          worker to two: the longest the first one stands still between two steps or before an update,
          less the longest while it was alone; and its memory before and after

Prints tables, then one line per target.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from support.bars import bar, print_table

MODELS = {"wide": 32, "gpt": 16, "resnet": 32}
QUICK = ("gpt",)
STEPS = 8
LAYERS = 12
STEADY = 15
"""Steps before the order and after the joiner has samples."""
PATIENCE = 300.0
CHECKSUM, STALL, MEMORY = 0.01, 0.1, 1.05


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one model's checksums, no join")
    parser.add_argument("--layers", type=int, default=LAYERS, help="of 16.8 M frozen parameters each")
    parser.add_argument("--no-join", action="store_true", help="checksums only")
    options = parser.parse_args()
    found = {name: checksum_share(name) for name in (QUICK if options.quick else MODELS)}
    print_table(
        "model step-ms checksum-ms share",
        ((name, f"{1e3 * s:.1f}", f"{1e3 * c:.3f}", f"{c / s:.5f}") for name, (s, c) in found.items()),
    )
    joined = None if options.quick or options.no_join else join(options.layers)
    for name, (step, checks) in found.items():
        bar(f"checksum-cost-{name}", checks / step, CHECKSUM)
    if joined is not None:
        bar("lora-join-stall-s", joined[0], STALL)
        bar("lora-donor-memory", joined[1], MEMORY)


def checksum_share(name: str) -> tuple[float, float]:
    """Return the thread seconds of a plain step, and of the checksums of one."""
    import torch

    from muster.runtime.state.guard import CYCLE, Guard
    from muster.runtime.state.state import TrainingState
    from support.peers.models import losses, make

    torch.set_num_threads(1)
    model, optimizer, data = make(name)
    batch = data[: MODELS[name]]
    spent = []
    for _ in range(STEPS):
        began = time.thread_time()
        optimizer.zero_grad()
        losses(model, *batch).mean().backward()
        optimizer.step()
        spent.append(time.thread_time() - began)
    guard = Guard(TrainingState(model, optimizer))
    guard.begin(0, holds=True)
    began = time.thread_time()
    for step in range(CYCLE):
        guard.begin(step, holds=True)
        guard.seal()
    return median(spent), (time.thread_time() - began) / CYCLE


def join(layers: int) -> tuple[float, float]:
    """Return the longest stall of the first worker in s, and its memory after the join by before."""
    from muster.runtime.launch.launcher import Launch
    from support.runtime_peers import SCRIPTS, end_well

    end_well()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        args = ("--out", name, "--layers", str(layers))
        with Launch(SCRIPTS / "lora_train.py", args, 1, threads=1, logs=folder) as job:
            job.wait_step(STEADY, PATIENCE)
            job.resize(2)
            job.wait_members(2, PATIENCE)
            entered = job.history.step
            job.wait_step(entered + STEADY, PATIENCE)
        rows = [
            [float(word) for word in line.split()]
            for line in (folder / "worker-0.lora").read_text().splitlines()
        ]
    alone = [row for row in rows[3:] if row[4] == 1]
    joining = [row for row in rows if row[4] == 2]
    stall, before = longest(joining), longest(alone)
    memory = joining[-1][3] / alone[-1][3]
    print_table(
        "phase steps longest-ms resident-MB",
        (
            ("alone", str(len(alone)), f"{1e3 * before:.1f}", f"{alone[-1][3] / 1e6:.0f}"),
            ("joining", str(len(joining)), f"{1e3 * stall:.1f}", f"{joining[-1][3] / 1e6:.0f}"),
        ),
    )
    return max(0.0, stall - before), memory


def longest(rows: Sequence[Sequence[float]]) -> float:
    """Return the longest time before a batch or around an update."""
    return max(max(row[1], row[2]) for row in rows)


if __name__ == "__main__":
    main()
