"""What only a daemon has to fold: tasks lost for good, a user's change of mind, pools divided again."""

import pytest

from muster.core.cycle.cycle import Cycle, Memory
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.event_errors import EventError, StaleEventError
from muster.core.state.evolve import evolve
from muster.model.event import (
    Cancelled,
    Event,
    PoolsSet,
    PreemptBegun,
    Reshaped,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
    Submitted,
    TasksLost,
)
from muster.model.job import Role, RoleSpec
from muster.model.outlook import Outlook, Table
from muster.model.pool import Pool, PoolTree
from muster.model.view import Phase, View
from muster.policy.registry import POLICIES
from tests.builders import TASK, cluster, job, placement, view
from tests.numbers import number

TWO = placement(("n0", 0b01), ("n0", 0b10))
ONE = placement(("n0", 0b01))


def runs(gang: int = 1) -> View:
    asked = job("j", 2, gang=gang)
    events: list[Event] = [
        Submitted(asked, 0.0),
        StartBegun(number("j"), 1, TWO, 1.0),
        Started(number("j"), 1, 2.0),
    ]
    return evolve(view(cluster(2)), events)


def workers(least: int, most: int) -> tuple[RoleSpec, ...]:
    return (RoleSpec(Role.WORKER, TASK, least, least, most),)


def test_a_lost_task_gives_its_device_back_and_the_rest_goes_on() -> None:
    after = evolve(runs(), [TasksLost(number("j"), 2, ONE, 9.0)])
    state = after.jobs[number("j")]
    assert (state.phase, state.generation, state.placement) == (Phase.RUNNING, 2, ONE)
    assert after.cluster.node("n0").free == 0b11111110
    assert state.attained(10.0) == 2 * 8.0 + 1.0


def test_what_is_left_must_be_a_whole_gang_of_the_next_generation() -> None:
    with pytest.raises(EventError):
        evolve(runs(gang=2), [TasksLost(number("j"), 2, ONE, 9.0)])
    with pytest.raises(EventError):
        evolve(runs(), [TasksLost(number("j"), 2, placement(("n1", 1)), 9.0)])
    with pytest.raises(StaleEventError):
        evolve(runs(), [TasksLost(number("j"), 1, ONE, 9.0)])


def test_a_job_keeps_its_other_roles_when_it_is_reshaped() -> None:
    with pytest.raises(EventError):
        evolve(runs(), [Reshaped(number("j"), (RoleSpec(Role.SERVER, TASK, 1, 1, 1),), 3.0)])
    assert (
        evolve(runs(), [Reshaped(number("j"), workers(3, 5), 3.0)]).jobs[number("j")].job.workers.most
        == 5
    )


@pytest.mark.parametrize("policy", ["fifo", "muster", "drf", "optimus"])
@pytest.mark.parametrize(("least", "most"), [(1, 1), (4, 4), (3, 6)])
def test_a_running_job_gets_what_its_user_asks_for_now(policy: str, least: int, most: int) -> None:
    now, memory, cycle = 10.0, Memory(), Cycle(POLICIES[policy])
    at = evolve(runs(), [Reshaped(number("j"), workers(least, most), 9.0)])
    for _ in range(3):
        known = {number("j"): Outlook(10_000.0, Table((1.0, 1.9, 2.8, 3.7, 4.6, 5.5)))}
        at = View(at.version, at.cluster, at.pools, at.jobs, known)
        decided = cycle.decide(at, now, memory)
        check(at, decided)
        memory, now = decided.memory, now + 1000.0
        at = evolve(at, begun(decided, now))
        if at.jobs[number("j")].phase is Phase.RESIZING:
            at = evolve(at, [Resized(number("j"), at.jobs[number("j")].generation, now)])
    held = at.jobs[number("j")].placement
    assert held is not None
    assert least <= held.count(Role.WORKER) <= most


def test_a_user_may_stop_a_job_that_is_being_changed() -> None:
    three = placement(("n0", 0b01), ("n0", 0b10), ("n1", 1))
    begun_ = evolve(
        runs(), [ResizeBegun(number("j"), 2, three, 3.0), PreemptBegun(number("j"), 2, 4.0)]
    )
    assert begun_.jobs[number("j")].phase is Phase.PREEMPTING
    after = evolve(begun_, [Cancelled(number("j"), 5.0)])
    assert [node.free for node in after.cluster.nodes] == [0b11111111] * 2


def test_pools_are_divided_anew_unless_a_job_would_be_without() -> None:
    other = PoolTree({"default": Pool("default"), "more": Pool("more")})
    assert evolve(runs(), [PoolsSet(other, 3.0)]).pools == other
    with pytest.raises(EventError, match="pool 'default'"):
        evolve(runs(), [PoolsSet(PoolTree({"more": Pool("more")}), 3.0)])
