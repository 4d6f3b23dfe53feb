"""The stall of a resize, against stopping and starting again and against torchrun's elastic restart.

One training (25.2 M parameters, SGD with momentum: 200 MB of state) goes through 2 1 2 3 5 4 3 workers,
one thread each, all on this machine:

muster    the survivors' stall: the longest gap between two steps, from the order to a few steps after
          the change, less the typical step of as many workers. The median of several rounds.
restart   plain DistributedDataParallel: stop with a checkpoint, start anew at the new size, load. From
          the last step before to the first after.
torchrun  --nnodes=1:N, one agent for each worker: one joins or leaves, torchrun restarts the workers, and
          they load the last checkpoint. From the last step before to the first after; the steps
          since that checkpoint, done twice, are not counted. Its wait for more nodes is set to 1 s,
          the least it takes; unless told it is 30 s.
torchft   where it is installed: survivors stay, from the last step before to the first after.

Prints a table, then one line per target.
"""

import argparse
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from support.bars import bar, print_table

CHAIN = (2, 1, 2, 3, 5, 4, 3)
QUICK = (2, 1)
ROUNDS = 5
TARGET = 100.0
"""Times shorter than a restart."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2 to 1 workers, one round, no torchft")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of Muster's chain")
    parser.add_argument("--only-muster", action="store_true", help="leave the peers out")
    options = parser.parse_args()
    from support.runtime_resizes import muster_stalls

    chain, rounds = (QUICK, 1) if options.quick else (CHAIN, options.rounds)
    ours = muster_stalls(chain, rounds)
    if options.only_muster:
        for change, stalls in ours.items():
            print(
                change,
                [
                    f"{1e3 * s.longest:.0f}/{1e3 * s.lost:.0f}/{1e3 * s.pause:.0f}/{1e3 * s.noise:.0f}/{1e3 * s.typical:.0f}"
                    for s in stalls
                ],
            )
        return
    ...


if __name__ == "__main__":
    main()
