"""Planners in real processes: they decide as planners in one process would, and survive each other."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.planners.beside import PlannersBeside
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.daemon.planners.processes import PlannerProcesses
from muster.model.decision import Kind
from muster.model.job import Job
from muster.model.pool import Pool, PoolTree, Quota
from muster.model.view import View
from muster.policy.registry import POLICIES
from tests.builders import cluster, job, view
from tests.world import World

POLICY_OF = {"a": "fifo", "b": "muster", "c": "srtf", "d": None}


def pools() -> PoolTree:
    quota = {"A100": Quota(reservation=4)}
    return PoolTree({name: Pool(name, quotas=quota, policy=own) for name, own in POLICY_OF.items()})


def jobs(first: int, count: int) -> list[Job]:
    names = list(POLICY_OF)
    return [job(f"j{i}", i % 3 + 1, pool=names[i % 4], most=4) for i in range(first, first + count)]


@contextmanager
def planners(count: int, patience: float = 60.0) -> Iterator[PlannerProcesses]:
    found = PlannerProcesses("muster", count, patience=patience)
    try:
        found.wait_until_ready()
        yield found
    finally:
        found.close()


@dataclass
class Told:
    """A cycle that is told the same as a world's own."""

    cycle: Cycle
    memory: Memory = field(default_factory=Memory)

    def decide(self, asked: View, now: float) -> Decisions:
        decided = self.cycle.decide(asked, now, self.memory)
        check(asked, decided)
        self.memory = decided.memory
        return decided


def asked() -> View:
    return view(cluster(4), jobs(0, 6), pools())


def test_processes_decide_as_planners_in_one_process_do_cycle_by_cycle() -> None:
    with planners(2) as found:
        here = Told(Cycle(POLICIES["muster"], planners=PlannersBeside(POLICIES["muster"], 2)))
        there = Told(Cycle(POLICIES["muster"], planners=found))
        world = World(asked())
        for turn in range(4):
            one = here.decide(world.view, world.now)
            other = there.decide(world.view, world.now)
            assert (one.decisions, one.approved) == (other.decisions, other.approved)
            world.view = evolve(world.view, begun(one, world.now))
            world.complete()
            world.now += 60.0
            if turn == 1:
                ended = next(s.job.name for s in world.view.jobs.values() if s.placement is not None)
                world.end(ended)
                world.submit(*jobs(6, 3))
        assert found.replaced == 0


@pytest.mark.parametrize(
    ("blow", "patience"),
    [
        pytest.param(signal.SIGKILL, 60.0, id="dies"),
        pytest.param(signal.SIGSTOP, 5.0, id="hangs", marks=pytest.mark.slow),
    ],
)
def test_a_planner_that_dies_or_hangs_is_replaced_and_its_pools_are_planned_meanwhile(
    blow: signal.Signals, patience: float
) -> None:
    with planners(2, patience) as found:
        told, first = Told(Cycle(POLICIES["muster"], planners=found)), found.processes[0]
        os.kill(first.process.pid, blow)
        decided = told.decide(asked(), 0.0)
        assert {each.kind for each in decided.decisions} == {Kind.START}
        assert len(decided.decisions) == 6
        assert found.replaced == 1
        assert first.process.poll() is not None
        found.wait_until_ready()
        again = told.decide(asked(), 1.0)
        assert len(again.decisions) == 6
        assert (again.approved is not None, found.replaced) == (True, 1)
