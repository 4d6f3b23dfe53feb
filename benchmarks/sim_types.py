"""Several device types: 24 T4, 24 RTX and 16 A100, up to eight times as fast as a T4.

Each world (flat, usual, steep), rigid and elastic jobs, at loads of 0.5 and 1.2 of all devices, with
the true speeds and with learnt ones, and with the types of the cluster file in reverse order. Prints
mean completion times, for rigid jobs over a bound by a linear programme, and the targets.
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

LEARNT, BOUND, ORDER = 1.10, 1.15, 0.02
"""Targets: most of the oracle's mean; most of the bound; most that the order of types changes."""


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
    """Learnt, with the types in reverse order."""
    bound: float
    changes: float
    """Of a job under learnt speeds."""


def played(case: TypedCase) -> Means:
    """Simulate one case in all ways."""
    oracle, end, _ = _run(case, tuple(NODES), learnt=False)
    learnt, _, changes = _run(case, tuple(NODES), learnt=True)
    reverse, _, _ = _run(case, tuple(reversed(NODES)), learnt=True)
    bound = 0.0
    if not case.elastic:
        world = drawn(case.world, case.load, case.seed, case.jobs, elastic=False)
        bound = lp_bound(world.arrivals, world.cluster.devices_by_type(), end)
    return Means(case, oracle, learnt, reverse, bound, changes)


def _run(case: TypedCase, order: Sequence[str], *, learnt: bool) -> tuple[float, float, float]:
    world = drawn(case.world, case.load, case.seed, case.jobs, elastic=case.elastic, order=order)
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
    heading = ("WORLD", "JOBS", "LOAD", "ORACLE", "X-BOUND", "LEARNT", "X-ORACLE", "REVERSE", "CHANGES")
    rows, bars = [], []
    for i, (world, elastic, load) in enumerate(groups):
        here = found[i * arguments.seeds : (i + 1) * arguments.seeds]
        oracle, learnt, reverse, bound, changes = (
            mean(getattr(each, name) for each in here)
            for name in ("oracle", "learnt", "reverse", "bound", "changes")
        )
        kind = "elastic" if elastic else "rigid"
        over = f"{oracle / bound:.2f}" if bound else "-"
        rows.append(
            (
                *(world, kind, f"{load}", f"{oracle:,.0f}", over, f"{learnt:,.0f}"),
                *(f"{learnt / oracle:.3f}", f"{reverse / learnt:.3f}", f"{changes:.1f}"),
            )
        )
        name = f"{world}-{kind}-{load}"
        bars.append((f"learnt-over-oracle-{name}", learnt / oracle, LEARNT))
        bars.append((f"order-of-types-{name}", abs(reverse / learnt - 1.0), ORDER))
        if bound:
            bars.append((f"oracle-over-bound-{name}", oracle / bound, BOUND))
    print_wide(heading, rows)
    for each in bars:
        bar(*each)


if __name__ == "__main__":
    main()
