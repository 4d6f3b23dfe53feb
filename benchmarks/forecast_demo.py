"""Forecasts of real trainings: the demo again and again, with other seeds and arrival times.

Each run is `examples/demo/demo.py --seed N`: a real daemon, six real trainings on eight virtual
devices, 2 min 40 s. The seed sets the order of the jobs, the gaps between them (exponential, with the
demo's own mean), initial parameters and the order of the data. Forecasts are those that the daemon has
kept, as users saw them: at each job's submission (where it had to wait), at its start, and after 25, 50
and 75 %. One whose interval spans more than a factor of 20 was told as unknown: it is counted, not
scored.

Prints a line for each job of each run with its forecast at the start (s from then), one for each moment
and kind, and one for each target: the part of all ends within their 80 % interval, and the median error
of the forecasts at the start, over the time left. Let nothing else run on the machine; on a busy one,
`--simulated` plays the jobs in the simulator at steps measured once, with forecasts at starts only.
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median

from muster.foresight.marks import MARKS, START, SUBMISSION
from support.bars import bar
from support.demo_forecasts import Outcome, append, load, read_outcomes
from support.demo_real import play
from support.demo_simulated import simulated
from support.sim_runs import print_wide

COVERED = 0.70, 0.90
ERROR = 0.25
QUICK = ("--speed", "4", "--only", "cnn-small", "--only", "gpt-small")
KEPT = "outcomes.jsonl"


def main() -> None:
    """Run, or go on, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=12, metavar="N", help="demos (12)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first run (1)")
    parser.add_argument(
        "--simulated", action="store_true", help="in the simulator, 2 s of a core a run"
    )
    parser.add_argument("--quick", action="store_true", help="one run of two short jobs: half a minute")
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="leave every forecast there as JSON lines, and the daemon's folder of each run; "
        "runs that are there are not run again",
    )
    asked = parser.parse_args()
    seeds = range(asked.seed, asked.seed + (1 if asked.quick else asked.runs))
    if asked.simulated:
        _print([each for seed in seeds for each in simulated(seed)])
        return
    with tempfile.TemporaryDirectory() as scratch:
        _print(list(_outcomes(seeds, asked.keep or Path(scratch), QUICK if asked.quick else ())))


def _outcomes(seeds: Sequence[int], folder: Path, options: Sequence[str]) -> Iterator[Outcome]:
    """Yield the forecasts of each run, those of earlier ones from the folder."""
    before = load(folder / KEPT)
    for seed in seeds:
        found = [each for each in before if each.seed == seed]
        if not found:
            # Without the mark of its end, a run that was interrupted is run again, in a new folder.
            run = Path(tempfile.mkdtemp(prefix=f"run{seed}-", dir=_made(folder)))
            play(run, ["--seed", str(seed), *options])
            append(folder / KEPT, found := list(read_outcomes(run, seed)))
        yield from found


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _print(outcomes: Sequence[Outcome]) -> None:
    scored = [each for each in outcomes if each.known]
    if not any(each.mark == START for each in scored):
        raise SystemExit("no forecast at a start was kept: the machine was too busy to play the future")
    started = [each for each in scored if each.mark == START]
    print("\nforecast at each job's start: s until its end\n")
    heading = (
        "RUN",
        "JOB",
        "AFTER",
        "PREDICTED",
        "80% INTERVAL",
        "REAL",
        "END",
        "ERROR",
        "AT SUBMISSION",
    )
    print_wide(heading, [_row(each, scored) for each in started])
    print("\nall forecasts that were kept\n")
    groups = [*_by_mark(scored), *_by_kind(started), ("all", scored)]
    print_wide(
        ("FORECASTS", "N", "WITHIN", "EARLY", "LATE", "MEDIAN ERROR"),
        [_summary(name, found) for name, found in groups if found],
    )
    print(f"\nunknown, and not scored: {len(outcomes) - len(scored)}\n")
    held = _part(scored, "within")
    bar("demo-coverage-at-least", held, COVERED[0], above=True)
    bar("demo-coverage-at-most", held, COVERED[1])
    bar("demo-median-error-at-start", median(abs(each.error) for each in started), ERROR)


def _row(said: Outcome, scored: Sequence[Outcome]) -> tuple[str, ...]:
    first = [e for e in scored if (e.seed, e.job, e.mark) == (said.seed, said.job, SUBMISSION)]
    return (
        str(said.seed),
        said.job,
        f"{said.after:.0f}",
        f"{said.middle:.0f}",
        f"{said.low:.0f} to {said.high:.0f}",
        f"{said.came:.0f}",
        said.place,
        f"{said.error:+.0%}",
        f"{first[0].error:+.0%}, {first[0].place}" if first else "-",
    )


def _by_mark(scored: Sequence[Outcome]) -> Iterator[tuple[str, list[Outcome]]]:
    for mark in MARKS:
        yield mark, [each for each in scored if each.mark == mark]


def _by_kind(started: Sequence[Outcome]) -> Iterator[tuple[str, list[Outcome]]]:
    for kind in sorted({each.kind for each in started}):
        yield f"{kind}, at start", [each for each in started if each.kind == kind]


def _summary(name: str, found: Sequence[Outcome]) -> tuple[str, ...]:
    parts = (f"{_part(found, place):.0%}" for place in ("within", "early", "late"))
    return name, str(len(found)), *parts, f"{median(abs(each.error) for each in found):.0%}"


def _part(found: Sequence[Outcome], place: str) -> float:
    return mean(each.place == place for each in found)


if __name__ == "__main__":
    main()
