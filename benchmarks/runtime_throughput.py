"""Throughput with a fixed set of workers against plain DistributedDataParallel.

Two workers of one thread each, gloo, the same model, batch and kind of data, DistributedDataParallel as
it comes. Both trainings live side by side, and take turns in blocks of steps: while the one computes
the other waits between two steps. What counts is the median over the blocks of the ratio of a block's
speed to that of DDP's blocks before and after it, so whatever else the machine does falls on both.

Prints a table, then one line per target.
"""

import argparse
from collections.abc import Iterator

from support.bars import bar, print_table

MODELS = {"resnet": 32, "gpt": 16, "wide": 32}
"""Global batches: steps of some tenths of a second on one core each."""
QUICK = {"gpt": 16}
BLOCKS = 12
TARGET = 0.98


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the transformer alone, in five blocks")
    parser.add_argument("--model", choices=MODELS, action="append", help="only these; may be repeated")
    options = parser.parse_args()
    from support.runtime_peers import end_well
    from support.runtime_turns import Turns, take_turns  # torch: only when something is measured

    end_well()
    chosen = options.model or (QUICK if options.quick else MODELS)
    found: dict[str, Turns] = {}

    def rows() -> Iterator[tuple[str, ...]]:
        for model in chosen:
            found[model] = turns = take_turns(model, MODELS[model], 5 if options.quick else BLOCKS)
            low, high = turns.spread
            yield (
                model, f"{turns.muster:.2f}", f"{turns.ddp:.2f}", f"{turns.ratio:.4f}",
                f"{low:.3f}-{high:.3f}", f"{turns.ddp_busy / turns.muster_busy:.4f}",
            )  # fmt: skip

    print_table("model muster-steps/s ddp-steps/s ratio quartiles ratio-of-cpu-s", rows())
    for model, turns in found.items():
        bar(f"throughput-vs-ddp-{model}", turns.ratio, TARGET, above=True)


if __name__ == "__main__":
    main()
