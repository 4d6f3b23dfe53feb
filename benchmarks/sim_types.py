"""Several device types: 24 T4, 24 RTX and 16 A100, up to eight times as fast as a T4.

Each world (flat, usual, steep), rigid and elastic jobs, at loads of 0.5 and 1.2 of all devices, with
the true lengths and speeds and with learnt ones, over five seeds. Prints mean completion times, for
rigid jobs over a bound by a linear programme, and for each target the worst case. Of the first seed
also, since a difference would show in any: REVERSE, the same cluster with its types listed in reverse
order, over the learnt mean; and MIXED, elastic jobs that may have several types at once, over those
that keep to one (`same_generation: true`), with the true speeds.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from statistics import mean

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.beliefs import Oracle
from muster.sim.engine import Setting
from muster.sim.learnt import Learnt
from muster.sim.report.metrics import summary
from muster.sim.scenario.run import simulate
from support.bars import bar, print_table
from support.sim_runs import OWN, parse, processes
from support.typed_bound import lp_bound
from support.typed_worlds import JOBS, LOADS, NODES, WORLDS, drawn

HEADING = "WORLD JOBS LOAD ORACLE X-BOUND LEARNT X-ORACLE BY-SEED REVERSE CHANGES MIXED"
LEARNT, BOUND, ORDER, MIXED = 1.10, 1.15, 0.02, 1.01
"""Targets: most of the oracle's mean; most of the bound; most that the order of types changes; most of
the mean without unequal devices: they are used only where they pay."""


@dataclass(frozen=True, slots=True)
class TypedCase:
    """One world, its jobs, and a seed."""

    world: str
    elastic: bool
    load: float
    seed: int
    jobs: int = JOBS


@dataclass(frozen=True, slots=True)
class Means:
    """Mean completion times of a case, s."""

    case: TypedCase
    oracle: float
    learnt: float
    reverse: float
    """Learnt, with the types in reverse order, of the first seed; 0 of others."""
    bound: float
    changes: float
    """Of a job under learnt speeds."""
    mixed: float
    """Jobs that may have several types at once, true speeds, likewise; 0: rigid ones cannot."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case over its seeds."""

    case: TypedCase
    oracle: float
    over: float | None
    """The oracle's mean over the bound, of rigid jobs."""
    learnt: float
    seeds: tuple[float, float]
    """Learnt over the oracle, the least and the most of any seed."""
    reverse: float
    changes: float
    mixed: float | None

    def cells(self) -> tuple[str, ...]:
        """Return what the table shows."""
        case, low_high = self.case, "..".join(f"{each:.2f}" for each in self.seeds)
        return (
            *(case.world, "elastic" if case.elastic else "rigid", f"{case.load}"),
            *(f"{self.oracle:,.0f}", _shown(self.over), f"{self.learnt:,.0f}"),
            *(f"{self.learnt / self.oracle:.3f}", low_high, f"{self.reverse:.3f}"),
            *(f"{self.changes:.1f}", _shown(self.mixed)),
        )


def _shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


def played(case: TypedCase) -> Means:
    """Simulate one case in all ways."""
    oracle, end, _ = _run(case, tuple(NODES), learnt=False)
    learnt, _, changes = _run(case, tuple(NODES), learnt=True)
    bound = mixed = reverse = 0.0
    if not case.seed:
        reverse, _, _ = _run(case, tuple(reversed(NODES)), learnt=True)
        mixed = _run(case, tuple(NODES), learnt=False, mix=True)[0] if case.elastic else 0.0
    if not case.elastic:
        world = drawn(case.world, case.load, case.seed, case.jobs, elastic=False)
        bound = lp_bound(world.arrivals, world.cluster.devices_by_type(), end)
    return Means(case, oracle, learnt, reverse, bound, changes, mixed)


def _run(
    case: TypedCase, order: Sequence[str], *, learnt: bool, mix: bool = False
) -> tuple[float, float, float]:
    which = (case.world, case.load, case.seed, case.jobs)
    world = drawn(*which, elastic=case.elastic, order=order, mix=mix)
    cluster = world.cluster
    setting = Setting(
        cluster,
        single_pool(cluster.devices_by_type()),
        POLICIES[OWN],
        beliefs=partial(Learnt, cluster.node_devices()) if learnt else Oracle,
        seed=case.seed,
    )
    found = summary(simulate(setting, world.arrivals))
    assert found.mean is not None
    assert found.makespan is not None
    changes = (found.resizes + found.preemptions) / len(world.arrivals)
    return found.mean, world.arrivals[0].at + found.makespan, changes


def row_of(here: Sequence[Means]) -> Row:
    """Return the line of the table of one case's seeds."""
    oracle, learnt, bound, changes = (
        mean(getattr(each, name) for each in here) for name in ("oracle", "learnt", "bound", "changes")
    )
    first, over = here[0], oracle / bound if bound else None
    mixed = first.mixed / first.oracle if first.mixed else None
    seeds = (
        min(each.learnt / each.oracle for each in here),
        max(each.learnt / each.oracle for each in here),
    )
    return Row(first.case, oracle, over, learnt, seeds, first.reverse / first.learnt, changes, mixed)


def rows_of(found: Iterator[Means], seeds: int, rows: list[Row]) -> Iterator[tuple[str, ...]]:
    """Yield each case's line as soon as its seeds are known."""
    while here := tuple(islice(found, seeds)):
        rows.append(row_of(here))
        yield rows[-1].cells()


def main() -> None:
    """Run what the command line asks for."""
    arguments = parse(__doc__, seeds=5, quick=1)
    worlds, loads = (("usual",), (1.2,)) if arguments.quick else (tuple(WORLDS), LOADS)
    groups = product(worlds, (False, True), loads)
    jobs = JOBS // 2 if arguments.quick else JOBS
    cases = [TypedCase(*group, seed, jobs) for group in groups for seed in range(arguments.seeds)]
    rows: list[Row] = []
    with processes(arguments.j) as spread:
        print_table(HEADING, rows_of(iter(spread(played, cases)), arguments.seeds, rows))
    bar("learnt-over-oracle-worst", max(row.learnt / row.oracle for row in rows), LEARNT)
    bar("oracle-over-bound-worst", max(row.over for row in rows if row.over is not None), BOUND)
    bar("order-of-types-worst", max(abs(row.reverse - 1.0) for row in rows), ORDER)
    bar("mixed-over-equal-worst", max(row.mixed for row in rows if row.mixed is not None), MIXED)


if __name__ == "__main__":
    main()
