"""Batches from loader processes against torch's DataLoader with as many workers.

The same dataset of pictures of 160 x 160, augmented with random crops, flips and noise (about 1 ms
each); the same number of processes, batches ahead and samples; a consumer that takes every batch and
computes a little with it. Both stay open and take turns in blocks of batches; what counts is the median
over the blocks of the ratio of a block's speed to that of the DataLoader's blocks before and after it,
so whatever else the machine does falls on both. The ratio of CPU seconds is that
of the loader processes.

Prints a table, then one line per target.
"""

import argparse
from collections.abc import Iterator
from statistics import median

from support.bars import bar, print_table

LOADERS = (1, 2)
TARGET = 0.95
"""Of the DataLoader's batches/s."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two loaders alone, in five blocks")
    parser.add_argument(
        "--loaders", type=int, action="append", help="this number alone; may be repeated"
    )
    options = parser.parse_args()
    from support.feeding import Feeding, take_turns  # torch: only when something is measured

    chosen = options.loaders or ((2,) if options.quick else LOADERS)
    found: dict[int, Feeding] = {}

    def rows() -> Iterator[tuple[str, ...]]:
        for loaders in chosen:
            found[loaders] = turns = take_turns(loaders, 5 if options.quick else 15)
            busy = turns.torch_busy / turns.muster_busy
            yield (
                str(loaders), f"{1 / median(turns.muster):.1f}", f"{1 / median(turns.torch):.1f}",
                f"{turns.ratio:.3f}", f"{busy:.3f}", f"{turns.first:.2f}",
            )  # fmt: skip

    print_table("loaders muster-batches/s torch-batches/s ratio ratio-of-cpu-s first-batch-s", rows())
    for loaders, turns in found.items():
        bar(f"loaders-vs-torch-{loaders}", turns.ratio, TARGET, above=True)


if __name__ == "__main__":
    main()
