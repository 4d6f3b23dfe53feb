"""Several device types: 24 T4, 24 RTX and 16 A100, up to eight times as fast as a T4.

Each world (flat, usual, steep), rigid and elastic jobs, at loads of 0.5 and 1.2 of all devices, with
the true lengths and speeds and with learnt ones, over five seeds. Prints mean completion times, for
rigid jobs over a bound by a linear programme, and the targets. Of the first seed also, since a
difference would show in any: REVERSE, the same cluster with its types listed in reverse order, over
the learnt mean; and MIXED, elastic jobs that may have several types at once, over those that keep to
one (`same_generation: true`), with the true speeds.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from statistics import mean

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.beliefs import Oracle
from muster.sim.engine import Setting
from muster.sim.learnt import Learnt
from muster.sim.report.metrics import summary
from muster.sim.scenario.run import simulate
from support.bars import bar
from support.sim_runs import OWN, parse, print_wide, processes
from support.typed_bound import lp_bound
from support.typed_worlds import JOBS, LOADS, NODES, WORLDS, drawn

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


def main() -> None:
    """Run what the command line asks for."""
    arguments = parse(__doc__, seeds=5, quick=1)
    worlds, loads = (("usual",), (1.2,)) if arguments.quick else (tuple(WORLDS), LOADS)
    groups = list(product(worlds, (False, True), loads))
    jobs = JOBS // 2 if arguments.quick else JOBS
    cases = [TypedCase(*group, seed, jobs) for group in groups for seed in range(arguments.seeds)]
    with processes(arguments.j) as spread:
        found = list(spread(played, cases))
    heading = (
        "WORLD",
        "JOBS",
        "LOAD",
        "ORACLE",
        "X-BOUND",
        "LEARNT",
        "X-ORACLE",
        "REVERSE",
        "CHANGES",
        "MIXED",
    )
    rows, bars = [], []
    for i, (world, elastic, load) in enumerate(groups):
        here = found[i * arguments.seeds : (i + 1) * arguments.seeds]
        oracle, learnt, bound, changes = (
            mean(getattr(each, name) for each in here)
            for name in ("oracle", "learnt", "bound", "changes")
        )
        first = here[0]
        reverse, mixed = first.reverse / first.learnt, first.mixed / first.oracle
        kind = "elastic" if elastic else "rigid"
        over = f"{oracle / bound:.2f}" if bound else "-"
        rows.append(
            (
                *(world, kind, f"{load}", f"{oracle:,.0f}", over, f"{learnt:,.0f}"),
                *(f"{learnt / oracle:.3f}", f"{reverse:.3f}", f"{changes:.1f}"),
                f"{mixed:.3f}" if mixed else "-",
            )
        )
        name = f"{world}-{kind}-{load}"
        bars.append((f"learnt-over-oracle-{name}", learnt / oracle, LEARNT))
        bars.append((f"order-of-types-{name}", abs(reverse - 1.0), ORDER))
        if bound:
            bars.append((f"oracle-over-bound-{name}", oracle / bound, BOUND))
        if mixed:
            bars.append((f"mixed-over-equal-{name}", mixed, MIXED))
    print_wide(heading, rows)
    for each in bars:
        bar(*each)


if __name__ == "__main__":
    main()
