"""The stall of a resize, against stopping and starting again and against torchrun's elastic restart.

One training (25.2 M parameters, SGD with momentum: 200 MB of state) goes through 2 1 2 3 5 4 3 workers,
one thread each, all on this machine:

muster    the stall: from the last step before the change to the first after, less the typical
          step of as many workers; the median of several rounds. Beside it the slowest step from the
          order on: joiners start, and leavers end, on the same few cores.
restart   plain DistributedDataParallel: stop with a checkpoint, restart at the new size, load. From
          the last step before to the first after.
torchrun  --nnodes=1:N, one agent for each worker: one joins or leaves, torchrun restarts the workers,
          and they load the last checkpoint. From the last step before to the first after; the steps
          since that checkpoint, done twice, are not counted. Its wait for more nodes is set to 5 s
          (30 unless told).
torchft   where a Python has it: the first replica's stall, measured as Muster's. Leavers are killed.

Prints a table, then one line per target.
"""

import argparse
import sys
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from support.bars import bar, print_table

if TYPE_CHECKING:
    from support.runtime_resizes import Change, Stall

CHAIN = (2, 1, 2, 3, 5, 4, 3)
QUICK = (2, 1)
TORCHRUN = ((2, 1), (1, 2))
"""Changes that torchrun is asked for: with more agents each takes half a minute, and at times its
rendezvous breaks for good."""
ROUNDS = 3
TARGET = 100.0
"""Times shorter than a restart."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="2 to 1 workers, once, without torchrun")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of Muster's training")
    parser.add_argument("--no-peers", action="store_true", help="Muster alone: a table without targets")
    parser.add_argument("--torchft", default=sys.executable, help="a Python that has torchft")
    options = parser.parse_args()
    from support.runtime_peers import PeerError, end_well
    from support.runtime_resizes import muster_stalls, restart_seconds, torchrun_seconds

    end_well()
    chain, rounds = (QUICK, 1) if options.quick else (CHAIN, options.rounds)
    ours = muster_stalls(chain, rounds)
    show_stalls(ours)
    if options.no_peers:
        return
    restarts = restart_seconds(chain)
    restarted: dict[Change, float] = {}
    for change in () if options.quick else TORCHRUN:
        try:
            restarted[change] = torchrun_seconds(change)
        except PeerError as problem:
            print(f"torchrun {change[0]}-{change[1]} failed: {str(problem).splitlines()[0]}")
    show_peers(ours, restarts, restarted)
    if not options.quick:
        show_torchft(options.torchft, ours)
    for change, stalls in ours.items():
        stall, name = median(each.stall for each in stalls), f"{change[0]}-{change[1]}"
        bar(f"resize-vs-restart-{name}", times(restarts[change], stall), TARGET, above=True)
        if change in restarted:
            bar(f"resize-vs-torchrun-{name}", times(restarted[change], stall), TARGET, above=True)


def times(peer: float, stall: float) -> float:
    """How many times longer; a stall below the clock's use is taken for a millisecond."""
    return peer / max(stall, 1e-3)


def show_stalls(ours: "dict[Change, list[Stall]]") -> None:
    """Muster's own times in ms: medians over the rounds."""

    def rows() -> Iterator[tuple[str, ...]]:
        for change, stalls in ours.items():
            ms = [
                f"{1e3 * median(values):.0f}"
                for values in zip(
                    *((s.typical, s.stall, s.slowest, s.lost, s.pause, s.noise) for s in stalls),
                    strict=True,
                )
            ]
            worst = f"{1e3 * max(s.stall for s in stalls):.0f}"
            yield (f"{change[0]}-{change[1]}", *ms, worst)

    print("muster, ms: a step; the stall; the slowest step's excess and all excess from the order on;")
    print("the runtime's own pause; the slowest step's excess where nothing changed; the worst stall")
    print_table("change step stall slowest lost pause noise worst", rows())


def show_peers(
    ours: "dict[Change, list[Stall]]", restarts: "dict[Change, float]", torchrun: "dict[Change, float]"
) -> None:
    """Seconds from step to step."""
    print("s from the last step before to the first after; for muster the stall")
    print_table(
        "change muster restart torchrun",
        (
            (
                f"{change[0]}-{change[1]}",
                f"{median(s.stall for s in stalls):.3f}",
                f"{restarts[change]:.1f}",
                f"{torchrun[change]:.1f}" if change in torchrun else "-",
            )
            for change, stalls in ours.items()
        ),
    )


def show_torchft(python: str, ours: "dict[Change, list[Stall]]") -> None:
    """torchft's stall for each change, or why there is none."""
    from support.runtime_peers import PeerError
    from support.runtime_resizes import BATCH
    from support.runtime_torchft import missing, torchft_stall

    reason = missing(python)
    if reason:
        print(f"torchft skipped: {reason}\n")
        return
    for change, stalls in ours.items():
        own = median(each.stall for each in stalls)
        try:
            stall = torchft_stall(python, *change, BATCH)
            print(f"torchft {change[0]}-{change[1]}: {stall:.3f} s, {times(stall, own):.1f} times ours")
        except PeerError as problem:
            print(f"torchft {change[0]}-{change[1]}: {str(problem).splitlines()[-1]}")
    print()


if __name__ == "__main__":
    main()
