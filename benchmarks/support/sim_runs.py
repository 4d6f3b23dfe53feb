"""Contenders on the same generated jobs, seed by seed, and how they compare with intervals."""

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Protocol, TypeVar

import numpy as np

from muster.sim.engine import Setting
from muster.sim.report.bootstrap import Interval, draws, mean
from muster.sim.report.compare import Comparison, Digest, compare, digest
from muster.sim.report.curve import Floats
from muster.sim.result import Result
from muster.sim.scenario.run import simulate
from muster.sim.trace.open_trace import TraceOptions, open_trace
from muster.sim.truth import Arrival

OWN = "muster"
"""Muster's own policy, by its name in the registry."""

Change = Callable[[Arrival, int], Arrival]
"""What makes a generated job one of the contender's world, by the job and its number."""
R = TypeVar("R")
T = TypeVar("T")


class Spread(Protocol):
    """A map over simulations, in turn or side by side, in order."""

    def __call__(self, each: Callable[[R], T], runs: Iterable[R], /) -> Iterable[T]: ...


@dataclass(frozen=True, slots=True)
class Contender:
    """A policy with its rules on a cluster, and what it may do with the jobs."""

    name: str
    setting: Setting
    change: Change | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation to be done."""

    contender: Contender
    trace: str
    seed: int


def arrivals(run: Run) -> list[Arrival]:
    """The jobs of a run: the same draws for every contender of a seed."""
    found = open_trace(run.trace, TraceOptions(seed=run.seed))
    change = run.contender.change
    return [each if change is None else change(each, i) for i, each in enumerate(found)]


def result_of(run: Run) -> Result:
    """Simulate; the result bears the contender's name, for several may have one policy."""
    setting = replace(run.contender.setting, seed=run.seed)
    result = simulate(setting, arrivals(run), {"trace": run.trace, "contender": run.contender.name})
    return replace(result, policy=run.contender.name)


def played(run: Run) -> Digest:
    """Simulate, and keep what comparing needs."""
    return digest(result_of(run))


def runs(contenders: Iterable[Contender], trace: str, seeds: int) -> list[Run]:
    """Every contender on every seed."""
    return [Run(each, trace, seed) for each in contenders for seed in range(seeds)]


@contextmanager
def processes(count: int) -> Iterator[Spread]:
    """This many simulations side by side."""
    if count <= 1:
        yield map
        return
    with get_context("spawn").Pool(count) as pool:
        yield pool.imap


def makespan_ratio(digests: Sequence[Digest], name: str, to: str) -> Interval:
    """Mean makespan over the seeds, divided by another's; seeds are what is drawn again."""
    columns = [[d.summary.makespan or 0.0 for d in digests if d.policy == each] for each in (name, to)]
    values: Floats = np.array(columns).T
    return draws([values], mean).ratio(0, 1)


def against(digests: Iterable[Digest], reference: str) -> tuple[Comparison, Mapping[str, Interval]]:
    """The comparison, and each contender's mean completion time divided by the reference's."""
    found = compare(digests, reference)
    return found, {row.policy: row.against for row in found.rows if row.against is not None}


def shown(interval: Interval, digits: int = 2) -> str:
    """A figure with its 95 % interval in one word."""
    one, low, high = (f"{x:.{digits}f}" for x in (interval.value, interval.low, interval.high))
    return f"{one}[{low},{high}]"


def print_wide(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table whose columns are as wide as they must be, the first left-aligned."""
    lines = [list(heading), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
    for line in lines:
        cells = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join([line[0].ljust(widths[0]), *cells]).rstrip(), flush=True)
    print(flush=True)


def parse(description: str, seeds: int, quick: int, parts: str = "") -> argparse.Namespace:
    """The arguments that every part has; `seeds` is set by --quick unless given; `parts`: its help."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few seeds and cases: half a minute")
    parser.add_argument("--seeds", type=int, help=f"seeds ({seeds}; {quick} if quick)")
    parser.add_argument(
        "-j", type=int, default=os.cpu_count() or 1, help="simulations side by side (every core)"
    )
    if parts:
        parser.add_argument("--parts", action="store_true", help=parts)
    arguments = parser.parse_args()
    if arguments.seeds is None:
        arguments.seeds = quick if arguments.quick else seeds
    return arguments
