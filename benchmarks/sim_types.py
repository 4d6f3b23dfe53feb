"""Several device types: 24 T4, 24 RTX and 16 A100, up to eight times as fast as a T4.

Each world (flat, usual, steep), rigid and elastic jobs, at loads of 0.5 and 1.2 of all devices, with
the true lengths and speeds and with learnt ones, over five seeds. Prints mean completion times, for
rigid jobs over a bound by a linear programme, and for each target the worst case. Of the first seed
also, since a difference would show in any: REVERSE, the same cluster with its types listed in reverse
order, over the learnt mean; and MIXED, elastic jobs that may have several types at once, over those
that keep to one (`same_generation: true`), with the true speeds.

With --parts, of elastic jobs only, what is lost to the oracle by which belief: X-LENGTHS, lengths true
and speeds learnt; X-SPEEDS, speeds true and of lengths the distribution known that they were drawn
from; X-BOUND, that of lengths, and speeds learnt; X-LEARNT, both learnt. No belief of lengths from
what has ended and run so far says more than that distribution does.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, product
from statistics import mean

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.beliefs import Oracle, OutlookSource
from muster.sim.engine import Setting
from muster.sim.learnt import Learnt
from muster.sim.report.metrics import summary
from muster.sim.scenario.run import simulate
from support.bars import bar, print_table
from support.sim_runs import OWN, parse, processes
from support.typed_beliefs import Foreknown, ForeknownTrueSpeeds, TrueLengths
from support.typed_bound import lp_bound
from support.typed_worlds import JOBS, LOADS, NODES, WORLDS, drawn

HEADING = "WORLD JOBS LOAD ORACLE X-BOUND LEARNT X-ORACLE BY-SEED REVERSE CHANGES MIXED"
LEARNT, BOUND, ORDER, MIXED = 1.10, 1.15, 0.02, 1.01
"""Targets: most of the oracle's mean; most of the bound; most that the order of types changes; most of
the mean without unequal devices: they are used only where they pay."""
PARTS: Mapping[str, Callable[[Mapping[str, int]], OutlookSource]] = {
    "X-LENGTHS": TrueLengths,
    "X-SPEEDS": ForeknownTrueSpeeds,
    "X-BOUND": Foreknown,
    "X-LEARNT": Learnt,
}
"""What is believed, by column of --parts (see `support.typed_beliefs`)."""


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
    oracle, end, _ = _run(case, tuple(NODES))
    learnt, _, changes = _run(case, tuple(NODES), Learnt)
    bound = mixed = reverse = 0.0
    if not case.seed:
        reverse, _, _ = _run(case, tuple(reversed(NODES)), Learnt)
        mixed = _run(case, tuple(NODES), mix=True)[0] if case.elastic else 0.0
    if not case.elastic:
        world = drawn(case.world, case.load, case.seed, case.jobs, elastic=False)
        bound = lp_bound(world.arrivals, world.cluster.devices_by_type(), end)
    return Means(case, oracle, learnt, reverse, bound, changes, mixed)


def _run(
    case: TypedCase,
    order: Sequence[str],
    believes: Callable[[Mapping[str, int]], OutlookSource] | None = None,
    *,
    mix: bool = False,
) -> tuple[float, float, float]:
    """Return mean, end, changes of a job; `believes`: what, by devices of a node; None: the truth."""
    which = (case.world, case.load, case.seed, case.jobs)
    world = drawn(*which, elastic=case.elastic, order=order, mix=mix)
    cluster = world.cluster
    setting = Setting(
        cluster,
        single_pool(cluster.devices_by_type()),
        POLICIES[OWN],
        beliefs=partial(believes, cluster.node_devices()) if believes else Oracle,
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


def part_means(case: TypedCase) -> list[float]:
    """Return the mean with the oracle, then with each of `PARTS`."""
    return [_run(case, tuple(NODES), believes)[0] for believes in (None, *PARTS.values())]


def part_rows(
    found: Iterator[list[float]], cases: Sequence[TypedCase], seeds: int
) -> Iterator[Sequence[str]]:
    """Yield the line of each seed, and of all seeds of a case: over the oracle."""
    for case in cases[::seeds]:
        each = list(islice(found, seeds))
        named = [
            *((str(seed), one) for seed, one in enumerate(each)),
            ("all", [mean(c) for c in zip(*each, strict=True)]),
        ]
        for seed, (oracle, *others) in named:
            yield (
                case.world,
                f"{case.load}",
                seed,
                f"{oracle:,.0f}",
                *(f"{one / oracle:.3f}" for one in others),
            )


def main() -> None:
    """Run what the command line asks for."""
    arguments = parse(__doc__, seeds=5, quick=1, parts="only: what elastic jobs lose by which belief")
    worlds, loads = (("usual",), (1.2,)) if arguments.quick else (tuple(WORLDS), LOADS)
    groups = product(worlds, (False, True), loads)
    jobs = JOBS // 2 if arguments.quick else JOBS
    cases = [TypedCase(*group, seed, jobs) for group in groups for seed in range(arguments.seeds)]
    rows: list[Row] = []
    if arguments.parts:
        cases = [case for case in cases if case.elastic]
        with processes(arguments.j) as spread:
            lines = part_rows(iter(spread(part_means, cases)), cases, arguments.seeds)
            print_table(f"WORLD LOAD SEED ORACLE {' '.join(PARTS)}", lines)
        return
    with processes(arguments.j) as spread:
        print_table(HEADING, rows_of(iter(spread(played, cases)), arguments.seeds, rows))
    bar("learnt-over-oracle-worst", max(row.learnt / row.oracle for row in rows), LEARNT)
    bar("oracle-over-bound-worst", max(row.over for row in rows if row.over is not None), BOUND)
    bar("order-of-types-worst", max(abs(row.reverse - 1.0) for row in rows), ORDER)
    bar("mixed-over-equal-worst", max(row.mixed for row in rows if row.mixed is not None), MIXED)


if __name__ == "__main__":
    main()
