"""Batch shares at speeds 4:2:1: those that the runtime finds by itself, equal ones, and the ideal.

Three workers that need 4, 8 and 16 ms for a sample, by sleeping: two cores cannot hold three workers
that compute at fixed speeds, and a worker that sleeps waits just as its peers see it. A tiny model
is trained beside it. The ideal is all three rates together: 84 / (1/4 + 1/8 + 1/16) ms = 192 ms for the
84 samples of a step; equal shares take 28 x 16 = 448 ms. Every training begins with equal shares.

Prints a table, then one line per target.
"""

import argparse
from statistics import median

from support.bars import bar, print_table

ROUNDS = 3
TARGET = 1.08
"""Of the ideal."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one training instead of three")
    options = parser.parse_args()
    from support.runtime_paces import Balance, ideal, measure
    from support.runtime_peers import end_well

    end_well()
    found = [measure() for _ in range(1 if options.quick else ROUNDS)]

    def row(name: str, one: Balance) -> tuple[str, ...]:
        ms = [f"{1e3 * seconds:.0f}" for seconds in (one.equal, one.balanced, ideal())]
        return (
            name,
            *ms,
            f"{one.balanced / ideal():.3f}",
            str(one.steps),
            "/".join(map(str, one.shares)),
        )

    print_table(
        "round equal-ms balanced ideal over-ideal after-steps shares",
        (row(str(i + 1), one) for i, one in enumerate(found)),
    )
    bar("balanced-over-ideal", median(one.balanced for one in found) / ideal(), TARGET)


if __name__ == "__main__":
    main()
