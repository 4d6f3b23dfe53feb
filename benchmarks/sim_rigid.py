"""The default policy against `fifo` on rigid jobs of which next to nothing is known.

Generated traces: 8 to 64 devices, 40 to 120 jobs of 1 to 8 devices that come in bursts, loads of 0.6 to
1.3, lengths with heavy tails, applications that were seen never or seldom, no durations given. Nothing
can be resized and nobody knows which job is short: any policy can only guess, and what it guesses wrong
costs. Prints one line per trace, ratios to `fifo`, then the targets.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean, median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.learnt import Learnt
from muster.sim.report.metrics import RunSummary, summary
from muster.sim.scenario.run import simulate
from support.bars import bar
from support.rigid_traces import RigidTrace, drawn
from support.sim_runs import OWN, parse, print_wide, processes

REFERENCE = "fifo"
TARGET = 1.05
"""Most that the median trace's P95 may be of fifo's."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One trace under both."""

    trace: RigidTrace
    own: RunSummary
    fifo: RunSummary

    def ratio(self, figure: str) -> float:
        """The default's figure, divided by fifo's."""
        return float(getattr(self.own, figure)) / float(getattr(self.fifo, figure))


def compared(seed: int) -> Compared:
    """Simulate one trace under both."""
    trace = drawn(seed)
    return Compared(trace, _played(trace, OWN), _played(trace, REFERENCE))


def _played(trace: RigidTrace, policy: str) -> RunSummary:
    cluster = trace.cluster
    setting = Setting(
        cluster,
        single_pool(cluster.devices_by_type()),
        POLICIES[policy],
        beliefs=partial(Learnt, cluster.node_devices()),
        seed=trace.seed,
    )
    return summary(simulate(setting, trace.arrivals))


HEADING = (
    *("TRACE", "DEVICES", "JOBS", "SIZES", "LENGTHS", "LOAD", "BURST", "REPEATS"),
    *("MEAN-S", "X-FIFO", "P95-S", "X-FIFO", "STOPS"),
)


def row(found: Compared) -> Sequence[str]:
    """One trace's line."""
    trace, own = found.trace, found.own
    return (
        str(trace.seed),
        str(sum(trace.cluster.devices_by_type().values())),
        str(len(trace.arrivals)),
        *(trace.sizes, trace.lengths, f"{trace.load:.2f}", str(trace.burst), str(trace.repeats)),
        *(f"{own.mean or 0:,.0f}", f"{found.ratio('mean'):.2f}"),
        *(f"{own.p95 or 0:,.0f}", f"{found.ratio('p95'):.2f}", str(own.preemptions)),
    )


def ratios(all_found: Sequence[Compared]) -> Iterator[Sequence[str]]:
    """Median, mean and worst ratio, and how many traces are worse than the target."""
    for figure in ("mean", "median", "p95", "p99", "makespan"):
        found = [each.ratio(figure) for each in all_found]
        worse = sum(ratio > TARGET for ratio in found) / len(found)
        figures = (median(found), mean(found), min(found), max(found))
        yield (figure, *(f"{each:.3f}" for each in figures), f"{100 * worse:.0f}%")


def main() -> None:
    """Simulate, print the tables, then the targets."""
    arguments = parse(__doc__ or "", seeds=50, quick=12)
    with processes(arguments.j) as spread:
        found = list(spread(compared, range(arguments.seeds)))
    print_wide(HEADING, map(row, found))
    print_wide(("X-FIFO", "MEDIAN", "MEAN", "BEST", "WORST", f">{TARGET}"), ratios(found))
    bar("rigid-p95-over-fifo-median", median(each.ratio("p95") for each in found), TARGET)
    bar("rigid-mean-over-fifo-median", median(each.ratio("mean") for each in found), 1.0)


if __name__ == "__main__":
    main()
