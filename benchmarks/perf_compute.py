"""How long devices compute: the data sheet's prior, lines through two batches, lines carried over.

Held against TensorFlow's published single-device figures (May 2017, P100 and K80) and steps measured on
an H200 by this very command (`--measure`); both are in benchmarks/data. The prior knows the model's
shape and the data sheet alone; its constants were chosen with the P100 figures in view, the other two
types are new to it. Prints tables, then one line per target.
"""

import argparse
import csv
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from muster.files.profile.profile_file import shipped_profile
from muster.perf.compute import Computed, ComputeHistory, ComputeLine, DeviceKind, line
from muster.perf.devices import data_sheet
from support.bars import bar, print_table

DATA = Path(__file__).parent / "data"


def measured() -> list[Computed]:
    """Every figure of benchmarks/data."""
    found = []
    for path in sorted(DATA.glob("compute-*.csv")):
        with path.open() as file:
            rows = csv.DictReader(row for row in file if not row.startswith("#"))
            found += [
                Computed(row["model"], row["device"], float(row["batch"]), float(row["seconds"]))
                for row in rows
            ]
    return found


def predicted(sample: Computed, history: ComputeHistory) -> ComputeLine:
    """What is said of a measurement, knowing this history."""
    kind = DeviceKind(sample.device_type, data_sheet(sample.device_type))
    found = line(shipped_profile(sample.profile), kind, history)
    if not isinstance(found, ComputeLine):
        raise SystemExit(found.detail)
    return found


def ratio(sample: Computed, history: ComputeHistory) -> float:
    """Predicted for measured seconds."""
    return predicted(sample, history).seconds(sample.batch) / sample.seconds


def prior_rows(samples: Sequence[Computed]) -> Iterator[Sequence[str]]:
    """The prior beside each figure."""
    for sample in samples:
        said = predicted(sample, ComputeHistory()).seconds(sample.batch)
        yield (
            sample.device_type,
            sample.profile,
            f"{sample.batch:g}",
            f"{sample.batch / sample.seconds:.4g}",
            f"{sample.batch / said:.4g}",
            f"{said / sample.seconds:.2f}",
        )


def by_lines(samples: Sequence[Computed]) -> Iterator[tuple[Computed, ComputeHistory]]:
    """Each figure that a line through the second batch and the last but one says something of."""
    for key in sorted({(s.profile, s.device_type) for s in samples}):
        own = sorted((s for s in samples if (s.profile, s.device_type) == key), key=lambda s: s.batch)
        if len(own) >= 4:
            known = own[1], own[-2]
            yield from ((s, ComputeHistory(known)) for s in own if s not in known)


def held(sample: Computed, history: ComputeHistory) -> bool:
    """Whether the interval holds the measurement."""
    said = predicted(sample, history).estimate(sample.batch)
    return said.low <= sample.seconds <= said.high


def carried_errors(samples: Sequence[Computed]) -> list[float]:
    """Errors on a K80 of a model measured on a P100, other models being known on both."""
    errors = []
    for sample in (s for s in samples if s.device_type == "K80"):
        others = [
            s for s in samples if s.device_type in ("P100", "K80") and s.profile != sample.profile
        ]
        own = [s for s in samples if s.device_type == "P100" and s.profile == sample.profile]
        errors.append(abs(ratio(sample, ComputeHistory((*others, *own))) - 1))
    return errors


def share(outcomes: Iterable[bool]) -> float:
    """The part of them that is true."""
    every = list(outcomes)
    return sum(every) / len(every)


def main() -> None:
    """Predict, print the tables, then the targets; or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="no effect: it takes two seconds")
    parser.add_argument(
        "--measure", metavar="CSV", type=Path, help="time this machine's device instead"
    )
    arguments = parser.parse_args()
    if arguments.measure:
        from support.timing import measure  # needs torch, which the rest does without

        measure(arguments.measure)
        return
    samples = measured()
    print("The prior: samples/s measured and predicted, and the ratio of their times")
    print_table("DEVICE MODEL BATCH MEASURED SAID RATIO", prior_rows(samples))
    nothing = ComputeHistory()
    lines = list(by_lines(samples))
    new = [s for s in samples if s.device_type != "P100"]
    errors = {
        "prior, device types it was not chosen on": [abs(ratio(s, nothing) - 1) for s in new],
        "line through two other batches": [abs(ratio(s, known) - 1) for s, known in lines],
        "line carried from P100 to K80": carried_errors(samples),
    }
    for what, each in errors.items():
        print(f"{what}: median error {statistics.median(each):.1%}, largest {max(each):.1%}")
    print()
    bar("compute-prior-interval-coverage", share(held(s, nothing) for s in samples), 0.8, above=True)
    bar("compute-line-interval-coverage", share(held(s, known) for s, known in lines), 0.8, above=True)


if __name__ == "__main__":
    main()
