"""The most memory that a worker holds, against DistributedDataParallel with gradients as bucket views.

The same training (50 M parameters, 201 MB; Adam) for as many steps, alone and with two workers: the
peak of the resident memory of a worker (VmHWM), the largest of them. Muster has its settings as they
are: comparing members, sending to joiners, ballots.

Prints a table, then one line per target.
"""

import argparse
import tempfile
from pathlib import Path

from support.bars import bar, print_table

SIZES = (1, 2)
STEPS = 6
BATCH = 8
TARGET = 1.05
"""Of DistributedDataParallel's."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="25 M parameters with SGD, 3 steps")
    options = parser.parse_args()
    from support.runtime_peers import end_well

    end_well()
    model, steps = ("wide", 3) if options.quick else ("adam", STEPS)
    args = ("--model", model, "--steps", str(steps), "--batch", str(BATCH))
    found = {size: (muster_peak(size, args), ddp_peak(size, args)) for size in SIZES}
    print_table(
        "workers muster-MB ddp-MB",
        ((str(size), f"{a / 1e6:.0f}", f"{b / 1e6:.0f}") for size, (a, b) in found.items()),
    )
    for size, (ours, theirs) in found.items():
        bar(f"memory-{size}", ours / theirs, TARGET)


def muster_peak(size: int, args: tuple[str, ...]) -> int:
    """Return the largest peak of Muster's workers, in bytes."""
    from muster.runtime.launch.launcher import Launch
    from support.runtime_peers import PATIENCE, SCRIPTS, PeerError

    with tempfile.TemporaryDirectory() as folder:
        script = SCRIPTS / "muster_train.py"
        with Launch(script, ("--out", folder, *args), size, threads=1, logs=folder) as job:
            outcome = job.wait(PATIENCE)
        if outcome.code:
            raise PeerError(outcome.error)
        return largest(folder, size)


def ddp_peak(size: int, args: tuple[str, ...]) -> int:
    """Return the largest peak of DistributedDataParallel's ranks, in bytes."""
    from support.runtime_peers import run_ddp

    with tempfile.TemporaryDirectory() as folder:
        run_ddp(size, ["--out", folder, "--views", *args], Path(folder, "log"))
        return largest(folder, size)


def largest(folder: str, size: int) -> int:
    """Return the largest of all workers' peaks."""
    peaks = [int(path.read_text()) for path in Path(folder).glob("*.peak")]
    assert len(peaks) == size, f"{len(peaks)} of {size} workers wrote their peak"
    return max(peaks)


if __name__ == "__main__":
    main()
