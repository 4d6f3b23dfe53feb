"""Owners of parameters, chosen from the links, against the model's own time and against the ring.

Workers are processes in network namespaces whose links are shaped by `tc tbf` (support/netns.py). For
each set of links the runtime's `choose` decides once with the bandwidths given and once with bandwidths
that it has probed, and what it chose is run in turns with gloo's ring (support/owners_net.py).

Needs root, the package iproute2 and torch. Prints a table, then one line per target.
"""

import argparse
from collections.abc import Iterator, Sequence

from support.bars import bar, print_table
from support.cases import EVEN, ONE_SLOW, TWO_SLOW
from support.netns import NoNetworkError, check, sweep

TOTAL = 16_000_000
"""Bytes of gradients."""
ROUNDS = 5
PROBING = 2.0
"""Seconds to probe all links."""
ERROR, OVER_RING = 0.10, 1.05
"""Targets: relative error of the predicted time, and the choice's time over the ring's."""


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="a quarter of the bytes, two rounds, under half a minute"
    )
    options = parser.parse_args()
    try:
        check()
    except NoNetworkError as problem:
        parser.exit(2, f"{problem}\n")
    sweep()
    total, rounds = (TOTAL // 4, 2) if options.quick else (TOTAL, ROUNDS)
    for rates in (ONE_SLOW, TWO_SLOW, EVEN):
        compare(rates, total, rounds)


def compare(rates: Sequence[float], total: int, rounds: int) -> None:
    """One set of links: a table, and two lines for each choice."""
    from support.owners_net import Way, measure  # torch: only when something is measured

    name = "-".join(f"{rate:g}" for rate in rates)
    print(f"links of {name} Mbit/s, {total / 1e6:g} MB")
    ring, *chosen = measure(rates, total, rounds, PROBING)

    def rows() -> Iterator[tuple[str, ...]]:
        for way in (ring, *chosen):
            links = "/".join(f"{rate * 8 / 1e6:.0f}" for rate in way.bandwidths)
            error = f"{way.predicted / way.seconds - 1:+.1%}"
            over = f"{way.seconds / ring.seconds:.3f}"
            yield (
                way.name,
                f"{way.predicted:.3f}",
                f"{way.seconds:.3f}",
                error,
                over,
                links,
                way.choice.words,
            )

    def bars(way: Way, suffix: str) -> None:
        bar(f"owners-model-error-{suffix}", abs(way.predicted / way.seconds - 1), ERROR)
        bar(f"owners-over-ring-{suffix}", way.seconds / ring.seconds, OVER_RING)

    print_table("links predicted measured error x-ring Mbit/s-of-payload choice", rows())
    for way in chosen:
        bars(way, name if way.name == "given" else f"{name}-{way.name}")
    print()


if __name__ == "__main__":
    main()
