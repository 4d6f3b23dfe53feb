"""Xiao's claim: spread while there is room, pack as it runs out, move small jobs for large gangs.

16 servers like the paper's figure 2a (eight devices, two sockets, two switches under each), four to a
rack; 80 % of the jobs have one device, the others are gangs of 4 and 8, which must have one node, or
of 16, which must have one rack. Run times are exponential, two hours on average. First in, first out
with backfill; the same jobs each time, placed adaptively, always packed, or always spread, each with
and without moving jobs: small ones when a gang finds no place that its contract allows, and any that
neighbours slow down, where that pays (a move costs 30 s). What neighbours cost is learnt from the steps
that jobs report.

Neighbours slow each other (figure 2b): a step takes longer by s beside a job below the same switch, by
s/2 below the same socket, by s/4 in the same node; the worst neighbour counts. The text of the paper
gives s, "up to 12 %" of speed for TensorFlow and "up to 40 %" for CNTK, and says that it is less
farther apart; the halves are ours. Prints a table for each load and disturbance, with the wait of gangs
apart from that of one-device jobs, [95 % by bootstrap]; then one line per target.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from muster.core.cycle.cycle_state import Rules
from muster.model.job import Locality
from muster.model.pool import single_pool
from muster.model.topology import Level
from muster.policy.registry import POLICIES
from muster.sim.disturbance import Disturbance
from muster.sim.engine import Setting
from muster.sim.executor import Pauses
from muster.sim.report.bootstrap import Draws, draws, mean
from muster.sim.report.curve import Floats
from muster.sim.report.metrics import summary
from muster.sim.result import JobResult
from muster.sim.truth import Arrival
from support.bars import bar
from support.sim_clusters import cluster_of
from support.sim_runs import (
    Contender,
    Run,
    Spread,
    parse,
    print_wide,
    processes,
    result_of,
    runs,
    shown,
)

CLUSTER = cluster_of("xiao", {"P100": 16})
NODE, LARGE = 8, 16
STRATEGIES = ("adaptive", "pack", "spread")
LOADS = {"light": 0.4, "heavy": 0.9}
"""Part of the devices in use on average, were every job slowed by a neighbour below its switch."""
LOST = {"none": 0.0, "TensorFlow": 0.12, "CNTK": 0.40}
"""Speed lost by two one-device jobs below one switch (Xiao, section 3.2)."""
TRACE = "poisson:sizes=1:0.8+4:0.1+8:0.06+16:0.04,mean=7200,capacity=128"


@dataclass(frozen=True, slots=True)
class Case:
    """A world in which all ways to place meet."""

    load: str
    disturbed: str

    @property
    def longer(self) -> float:
        """A loss of speed d makes a step longer by 1 / (1 - d) - 1 of itself."""
        return 1 / (1 - LOST[self.disturbed]) - 1

    def disturbance(self) -> Disturbance:
        """Less and less, the farther apart."""
        return Disturbance(switch=self.longer, socket=self.longer / 2, node=self.longer / 4)

    def trace(self, jobs: int) -> str:
        """This many jobs at this load; the generator's load is that of jobs nobody disturbs."""
        return f"{TRACE},jobs={jobs},load={LOADS[self.load] / (1 + self.longer):.4f}"


@dataclass(frozen=True, slots=True)
class Seen:
    """One simulation: of each job its devices, completion time and wait in s; moves and the rest."""

    name: str
    devices: Floats
    times: Floats
    waits: Floats
    run: Floats
    """s it held its devices."""
    alone: Floats
    """s it would have held them, nobody near."""
    migrations: int
    fragmentation: float


def contracted(arrival: Arrival, number: int) -> Arrival:
    """A gang that fits a node must have one; a larger one must have one rack."""
    devices = arrival.job.workers.gang
    if devices == 1:
        return arrival
    widest = Level.NODE if devices <= NODE else Level.RACK
    return replace(arrival, job=replace(arrival.job, locality=Locality(widest)))


def contenders(case: Case) -> list[Contender]:
    """Every way to place, with and without migration."""
    pools = single_pool({"P100": CLUSTER.devices_by_type()["P100"]})
    setting = Setting(CLUSTER, pools, POLICIES["fifo"], pauses=Pauses(), disturbance=case.disturbance())
    return [
        Contender(_name(how, moving), replace(setting, rules=Rules(how, migrate=moving)), contracted)
        for how in STRATEGIES
        for moving in (True, False)
    ]


def _name(how: str, moving: bool) -> str:
    return f"{how}+move" if moving else how


def seen(run: Run) -> Seen:
    """Simulate, and keep what is told apart by size."""
    result = result_of(run)
    short = summary(result)
    return Seen(
        run.contender.name,
        _each(result.records, lambda r: r.devices),
        _each(result.records, lambda r: (r.ended or np.nan) - r.submitted),
        _each(result.records, lambda r: (np.nan if r.started is None else r.started) - r.submitted),
        _each(result.records, lambda r: r.run),
        _each(result.records, lambda r: r.alone),
        short.migrations,
        short.fragmentation or 0.0,
    )


def _each(records: Sequence[JobResult], figure: Callable[[JobResult], float]) -> Floats:
    return np.array([figure(record) for record in records], dtype=float)


SINGLES, GANGS, LARGEST = (1, 1), (2, LARGE), (LARGE, LARGE)
"""Fewest and most devices."""


@dataclass(frozen=True, slots=True)
class Table:
    """Simulations of one case by contender, seeds in the same order."""

    by_name: Mapping[str, Sequence[Seen]]

    def drawn(self, figure: str, sizes: tuple[int, int] = (1, LARGE)) -> Draws:
        """A figure's mean over the jobs of these sizes: as it is, and as it comes out in draws."""
        tables = []
        for same_seed in zip(*self.by_name.values(), strict=True):
            devices = same_seed[0].devices
            chosen = (sizes[0] <= devices) & (devices <= sizes[1])
            tables.append(np.stack([getattr(each, figure)[chosen] for each in same_seed], axis=1))
        return draws(tables, mean)

    def ratio(self, name: str, to: str, figure: str, sizes: tuple[int, int] = (1, LARGE)) -> float:
        """One contender's mean divided by another's; 1 if both are equal, be it at 0."""
        names = list(self.by_name)
        value = self.drawn(figure, sizes).value
        own, other = float(value[names.index(name)]), float(value[names.index(to)])
        return 1.0 if own == other else own / other if other else inf


HEADING = (
    *("PLACED", "MEAN-S", "X-ADAPTIVE", "RUN/ALONE", "1:MEAN-S", "1:WAIT-S"),
    *("GANGS:WAIT-S", "16:WAIT-S", "MOVES", "FRAGMENTED"),
)


def rows(table: Table) -> Iterator[Sequence[str]]:
    """A row for each way to place."""
    times, run, alone = (table.drawn(figure) for figure in ("times", "run", "alone"))
    singles = table.drawn("times", SINGLES)
    waits = [table.drawn("waits", sizes) for sizes in (SINGLES, GANGS, LARGEST)]
    for i, (name, each) in enumerate(table.by_name.items()):
        yield (
            name,
            f"{times.value[i]:.0f}",
            shown(times.ratio(i, 0), 3),
            f"{run.value[i] / alone.value[i]:.3f}",
            f"{singles.value[i]:.0f}",
            f"{waits[0].value[i]:.0f}",
            shown(waits[1].interval(i), 0),
            shown(waits[2].interval(i), 0),
            f"{np.mean([s.migrations for s in each]):.0f}",
            f"{np.mean([s.fragmentation for s in each]):.2f}",
        )


def measured(spread: Spread, case: Case, jobs: int, seeds: int) -> Table:
    """All contenders in one world."""
    found: dict[str, list[Seen]] = {}
    for each in spread(seen, runs(contenders(case), case.trace(jobs), seeds)):
        found.setdefault(each.name, []).append(each)
    return Table(found)


def targets(case: Case, table: Table) -> None:
    """Xiao's claim, sentence by sentence; what it says of interference needs some."""
    name = f"{case.load}-{case.disturbed.lower()}"
    adaptive = "adaptive+move"
    if case.load == "heavy":  # "it will pack the jobs together to make place for multi-GPU jobs"
        for other in ("pack", "spread"):
            waits = table.ratio(adaptive, other, "waits", GANGS)
            bar(f"adaptive-gangs-wait-of-{other}-{name}", waits, 1.0)
    if case.longer:  # "under light load, it tends to spread out jobs to avoid interference"
        for other in ("pack", "spread"):
            bar(f"adaptive-time-of-{other}-{name}", table.ratio(adaptive, other, "times"), 1.0)
    # "pack small jobs closer during runtime to make place for large jobs"
    moved = table.ratio(adaptive, "adaptive", "waits", GANGS)
    bar(f"migration-gangs-wait-{name}", moved, 1.0)


REASONS = """\
What it is made of
- Each place has a price: what a newcomer and its neighbours would lose to each other, by what was
  learnt of steps that got longer beside a neighbour. Adaptive takes the cheapest place, of equals the
  tightest.
- Where jobs may be moved no whole node is kept free for gangs: what stands in a gang's way is moved as
  soon as it is expected to stay for longer than the move costs. Without moves adaptive keeps whole
  nodes for the gangs asked for lately, and packs beside them.
- A gang over several nodes would be slowed by one neighbour on one of them. The small jobs of just
  enough nodes are moved for it, so that it has whole ones, where that gains five times the cost.
- Where nobody waits, a job that neighbours slow down is moved apart if that gains five times the cost.
- Moving small jobs can raise the mean over jobs: what a gang of 16 has earlier, up to 16 one-device
  jobs have later.
"""


def main() -> None:
    """Simulate, print the tables, then the targets."""
    arguments = parse(__doc__ or "", seeds=4, quick=2)
    jobs = 300 if arguments.quick else 600
    disturbed = ("CNTK",) if arguments.quick else tuple(LOST)
    every = (Case(load, each) for each in disturbed for load in LOADS)
    # Nobody waits and nobody is slowed at light load without disturbance: there is nothing to compare.
    cases = [case for case in every if case.longer or case.load == "heavy"]
    found = {}
    with processes(arguments.j) as spread:
        for case in cases:
            found[case] = measured(spread, case, jobs, arguments.seeds)
            print(
                f"{case.load} load ({LOADS[case.load]:.1f}), disturbance {case.disturbed}: "
                f"{jobs} jobs x {arguments.seeds} seeds"
            )
            print_wide(HEADING, rows(found[case]))
    print(REASONS)
    for case, table in found.items():
        targets(case, table)


if __name__ == "__main__":
    main()
