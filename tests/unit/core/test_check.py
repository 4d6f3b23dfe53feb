"""Each invariant can be broken, and is then named: decisions spoilt by hand."""

from dataclasses import replace

import pytest

from muster.core.cycle.cycle import Decisions, Memory, decide
from muster.core.state.check import BrokenInvariantError, check
from muster.model.cluster import NodeState
from muster.model.decision import Decision, Kind
from muster.model.job import Job, Locality, Need, Role
from muster.model.placement import Placement, Slot
from muster.model.pool import Quota
from muster.model.reason import Code, Reason
from muster.model.topology import Level
from muster.model.view import JobState, View
from muster.policy.published.fifo import Fifo
from tests.builders import GB, TASK, cluster, job, mixed, node_set, placement, slot, view
from tests.numbers import number
from tests.world import World, flat, on

WHY = Reason(Code.STARTED)
POOLS = flat(default=Quota(reservation=4, limit=8), other=Quota())


def decided(seen: View, *decisions: Decision, kept: tuple[str, ...] = ()) -> Decisions:
    """What the cycle says of this view, with these decisions instead of its own."""
    honest = decide(Fifo(), seen, 0.0, Memory())
    told = {decision.job for decision in decisions} | {number(name) for name in kept}
    mine = tuple(d for d in honest.decisions if d.job not in told)
    return replace(honest, decisions=(*decisions, *mine))


def start(name: str, placed: Placement | None, generation: int = 1) -> Decision:
    return Decision(Kind.START, number(name), generation, WHY, placed)


def broken(seen: View, *decisions: Decision, kept: tuple[str, ...] = ()) -> str:
    with pytest.raises(BrokenInvariantError) as raised:
        check(seen, decided(seen, *decisions, kept=kept))
    return str(raised.value)


def one(workers: int = 1, **fields: object) -> View:
    asked = job("j", workers)
    return view(cluster(2), [replace(asked, **fields)], POOLS)  # type: ignore[arg-type]


def test_what_the_cycle_says_passes() -> None:
    seen = one()
    check(seen, decided(seen))


def test_another_version_is_refused() -> None:
    seen = one()
    with pytest.raises(BrokenInvariantError, match="view they were made on"):
        check(replace(seen, version=7), decided(seen))


def test_two_decisions_for_one_job() -> None:
    twice = start("j", placement(("n0", 1)))
    assert "two decisions" in broken(one(), twice, twice)


def test_a_job_without_a_decision() -> None:
    seen = one()
    with pytest.raises(BrokenInvariantError, match="keeps waiting"):
        check(seen, replace(decided(seen), decisions=()))


def test_a_decision_about_nobody() -> None:
    assert "jobs of the view" in broken(one(), start("ghost", placement(("n0", 1))))


@pytest.mark.parametrize(
    "kind", [kind for kind in Kind if kind not in (Kind.START, Kind.WAIT)], ids=str
)
def test_a_decision_that_does_not_suit_the_phase(kind: Kind) -> None:
    assert "suits the phase" in broken(one(), Decision(kind, number("j"), 1, WHY, placement(("n0", 1))))


def test_a_running_job_is_not_started_again() -> None:
    seen = view(cluster(1), [on(job("j"), "n0", 1)])
    assert "suits the phase" in broken(seen, start("j", placement(("n0", 2)), 2))


def test_a_start_without_a_placement() -> None:
    assert "a placement comes with" in broken(one(), start("j", None))


def test_a_wait_with_a_placement() -> None:
    wait = Decision(Kind.WAIT, number("j"), 0, WHY, placement(("n0", 1)))
    assert "a placement comes with" in broken(one(), wait)


@pytest.mark.parametrize("generation", [0, 2])
def test_a_change_that_is_not_the_next_generation(generation: int) -> None:
    assert "one generation" in broken(one(), start("j", placement(("n0", 1)), generation))


def test_preempting_what_is_not_preemptible() -> None:
    seen = view(cluster(1), [on(job("j", preemptible=False), "n0", 1)])
    assert "only preemptible" in broken(seen, Decision(Kind.PREEMPT, number("j"), 1, WHY))


def test_less_than_a_gang() -> None:
    assert "whole or absent" in broken(one(2), start("j", placement(("n0", 1))))


def test_a_gang_without_its_servers() -> None:
    seen = view(cluster(1), [job("j", servers=1)])
    assert "whole or absent" in broken(seen, start("j", placement(("n0", 1))))


def test_more_than_the_most() -> None:
    assert "more than its most" in broken(one(), start("j", placement(("n0", 1), ("n0", 2))))


def test_one_task_in_two_places() -> None:
    twins = placement(slot("n0", 1, 0), slot("n0", 2, 0))
    assert "one place" in broken(one(2), start("j", twins))


@pytest.mark.parametrize(
    "place",
    [
        slot("n0", 0b11, need=TASK),
        slot("n0", 0b11),
        slot("n0", 0b1, need=Need(1, 0, 0)),
        Slot(Role.WORKER, 0, "n0", 0, TASK),
    ],
)
def test_a_task_with_other_than_it_needs(place: Slot) -> None:
    assert "just the devices it needs" in broken(one(), start("j", placement(place)))


def test_a_device_type_that_is_not_allowed() -> None:
    there = mixed((1, node_set()), (1, node_set("v", device_type="V100", generation="volta")))
    seen = view(there, [job("j", device_types=("V100",))])
    assert "allowed types" in broken(seen, start("j", placement(("n0", 1))))


def test_two_generations_where_one_was_asked() -> None:
    there = mixed((1, node_set()), (1, node_set("v", device_type="V100", generation="volta")))
    seen = view(there, [job("j", 2)])
    assert "one generation" in broken(seen, start("j", placement(("n0", 1), ("n1", 1))))
    free = view(there, [job("j", 2, same_generation=False)])
    check(free, decided(free, start("j", placement(("n0", 1), ("n1", 1)))))


@pytest.mark.parametrize(
    ("locality", "places"),
    [
        (Locality(Level.SWITCH), (("n0", 0b001), ("n0", 0b100))),
        (Locality(Level.NODE), (("n0", 1), ("n1", 1))),
        (Locality(max_slowdown=0.05), (("n0", 1), ("n1", 1))),
    ],
)
def test_a_broken_contract(locality: Locality, places: tuple[tuple[str, int], ...]) -> None:
    assert "a contract is never broken" in broken(
        one(2, locality=locality), start("j", placement(*places))
    )


def test_a_device_that_another_job_holds() -> None:
    seen = view(cluster(1), [on(job("holds"), "n0", 1), job("j")])
    assert "no device is held twice" in broken(seen, start("j", placement(("n0", 1))))


def test_a_device_for_two_starts() -> None:
    seen = view(cluster(1), [job("a"), job("b")])
    both = [start(name, placement(("n0", 1))) for name in ("a", "b")]
    assert "no device is held twice" in broken(seen, *both)


@pytest.mark.parametrize("state", [NodeState.LOST, NodeState.DRAINING])
def test_a_node_that_is_not_up(state: NodeState) -> None:
    seen = one()
    down = replace(seen.cluster.nodes[0], state=state)
    seen = replace(seen, cluster=replace(seen.cluster, nodes=(down, *seen.cluster.nodes[1:])))
    assert "nodes that are up" in broken(seen, start("j", placement(("n0", 1))))


@pytest.mark.parametrize(
    ("need", "what"), [(Need(1, 20_000, 0), "no core"), (Need(1, 0, 200 * GB), "no memory")]
)
def test_cores_and_memory_for_two(need: Need, what: str) -> None:
    seen = view(cluster(1), [job("a", need=need), job("b", need=need)])
    both = [start(n, placement(slot("n0", bit, need=need))) for n, bit in (("a", 1), ("b", 2))]
    assert what in broken(seen, *both)


def test_a_pool_above_its_limit() -> None:
    jobs: list[Job | JobState] = [on(job("holds", 6), "n0", 0x3F), job("j", 3)]
    seen = view(cluster(2), jobs, POOLS)
    places = placement(*(("n1", 1 << i) for i in range(3)))
    assert "default: no pool is above its limit" in broken(seen, start("j", places))


def test_a_limit_set_below_what_is_in_use_stops_no_other_decision() -> None:
    """Else the whole cluster would stand still until enough of that pool's jobs have ended."""
    limited = flat(a=Quota(limit=2), b=Quota())
    jobs: list[Job | JobState] = [on(job("old", 3, pool="a"), "n0", 0b111), job("other", 2, pool="b")]
    world = World(view(cluster(1), jobs, limited), 10.0)
    assert world.cycle().names(Kind.START) == {"other"}


def test_a_pool_above_its_limit_while_the_old_devices_are_still_held() -> None:
    """Six shrink to two, and three start at once: for a moment there would be nine."""
    jobs: list[Job | JobState] = [on(job("holds", 2, most=6), "n0", 0x3F), job("j", 3)]
    seen = view(cluster(2), jobs, POOLS)
    smaller = Decision(Kind.RESIZE, number("holds"), 2, WHY, placement(("n0", 1), ("n0", 2)))
    places = placement(*(("n1", 1 << i) for i in range(3)))
    assert "above its limit" in broken(seen, smaller, start("j", places))


def test_not_preemptible_beyond_the_reservation() -> None:
    seen = view(cluster(2), [job("j", 5, preemptible=False)], POOLS)
    places = placement(*(("n1", 1 << i) for i in range(5)))
    assert "within the reservation" in broken(seen, start("j", places))


def test_a_move_doubles_what_is_held_only_for_a_moment_and_is_allowed() -> None:
    eight = job("j", 8)
    seen = view(cluster(2), [on(eight, "n0", 0xFF)], POOLS)
    there = placement(*(("n1", 1 << i) for i in range(8)))
    check(seen, decided(seen, Decision(Kind.MIGRATE, number("j"), 2, WHY, there)))


def test_a_waiting_job_that_is_just_kept() -> None:
    assert "keeps waiting" in broken(one(), kept=("j",))
