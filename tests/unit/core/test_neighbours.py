"""What was learnt of neighbours decides where jobs start, and which are moved apart."""

from dataclasses import replace

import pytest

from muster.core.cycle.cycle_state import Rules
from muster.core.why.words import tell
from muster.model.decision import Kind
from muster.model.job import Job, Locality
from muster.model.reason import Avoided, Code
from muster.model.slowdowns import Common, Slowdowns
from muster.model.topology import Level
from muster.model.view import JobState, View
from tests.builders import cluster, job, view
from tests.numbers import number
from tests.world import Frame, World, on

BAD = {Common.SWITCH: 0.6, Common.SOCKET: 0.3, Common.NODE: 0.15, Common.NETWORK: 0.0}
SURE = dict.fromkeys(Common, 0.0)
HOUR = 3600.0


def decided(
    *jobs: Job | JobState,
    slowdowns: Slowdowns,
    nodes: int = 2,
    rules: Rules | None = None,
    submitted: float = HOUR,
) -> Frame:
    seen = view(cluster(nodes), jobs)
    states = {n: replace(state, submitted=submitted) for n, state in seen.jobs.items()}
    believed: View = replace(seen, jobs=states, slowdowns=slowdowns)
    return World(believed, HOUR, rules=rules or Rules()).cycle()


def close() -> list[JobState]:
    """Two jobs below one switch, which have run for an hour."""
    return [on(job(name, pause=30.0), "n0", bits) for name, bits in (("a", 0b01), ("b", 0b10))]


def test_a_job_that_neighbours_slow_down_is_moved_apart() -> None:
    frame = decided(*close(), slowdowns=Slowdowns(BAD, proven=SURE))
    (moved,) = frame.of(Kind.MIGRATE)
    assert moved.placement is not None and moved.placement.nodes() == {"n1"}
    assert moved.reason.code is Code.MIGRATED_APART
    assert moved.reason.cost == 30.0
    # Both steps are 0.6 longer, and both jobs are expected to run for an hour more.
    assert moved.reason.gain == pytest.approx(2 * 0.6 * HOUR)


@pytest.mark.parametrize(
    "slowdowns, rules",
    [
        (Slowdowns(BAD), Rules()),  # only believed
        (Slowdowns(BAD, proven=SURE), Rules(migrate=False)),
        (Slowdowns(BAD, proven=SURE), Rules(strategy="pack")),
        (Slowdowns(dict.fromkeys(Common, 0.001), proven=SURE), Rules()),  # does not pay
    ],
)
def test_otherwise_nobody_is_moved(slowdowns: Slowdowns, rules: Rules) -> None:
    assert not decided(*close(), slowdowns=slowdowns, rules=rules).of(Kind.MIGRATE)


def test_after_a_vain_look_the_next_comes_later_the_more_jobs_there_are() -> None:
    mild = Slowdowns(dict.fromkeys(Common, 0.001), proven=SURE)
    world = World(replace(view(cluster(2), close()), slowdowns=mild), HOUR)
    assert not world.cycle().of(Kind.MIGRATE)
    world.view = replace(world.view, slowdowns=Slowdowns(BAD, proven=SURE))
    assert not world.cycle(1.5).of(Kind.MIGRATE)  # a second for each of two jobs
    assert world.cycle(0.5).of(Kind.MIGRATE)


def test_nobody_is_moved_apart_while_a_job_waits_for_room() -> None:
    known = Slowdowns(BAD, proven=SURE)
    waits = job("large", 32)
    assert not decided(*close(), waits, slowdowns=known).of(Kind.MIGRATE)


def test_a_job_that_cannot_be_stopped_is_not_moved() -> None:
    known = Slowdowns(BAD, proven=SURE)
    fixed = [replace(state, job=replace(state.job, preemptible=False)) for state in close()]
    assert not decided(*fixed, slowdowns=known).of(Kind.MIGRATE)


def test_a_start_tells_which_neighbour_it_avoids() -> None:
    """Without the knowledge it would be packed beside the loud job."""
    loud = on(job("loud"), "n0", 0b1)
    known = Slowdowns(
        BAD,
        {Common.SWITCH: {"mine": {"loud": 0.5}}},
        {number("loud"): "loud", number("mine"): "mine"},
    )
    frame = decided(loud, job("mine"), slowdowns=known)
    assert frame.reason("mine").avoided == Avoided("loud", number("loud"), 0.5)
    placed = frame.decision("mine").placement
    assert placed is not None and placed.nodes() == {"n1"}
    assert "apart from loud: beside it steps get 50% longer" in tell(frame.reason("mine"))


def test_jobs_placed_in_one_cycle_are_neighbours_already() -> None:
    jobs = [job(name) for name in "abcd"]
    frame = decided(*jobs, slowdowns=Slowdowns(BAD))
    starts = [frame.decision(name).placement for name in "abcd"]
    nodes = [next(iter(each.nodes())) for each in starts if each is not None]
    assert sorted(nodes) == ["n0", "n0", "n1", "n1"]


def test_room_is_made_at_once_for_a_gang_that_would_wait_long() -> None:
    """The gang has just come; what stands in its way has run for an hour, and would for another."""
    small = [on(job(name, pause=10.0), node, 1) for name, node in (("s0", "n0"), ("s1", "n1"))]
    large = job("large", 8, locality=Locality(Level.NODE))
    frame = decided(*small, large, slowdowns=Slowdowns())
    (moved,) = frame.of(Kind.MIGRATE)
    assert moved.reason.code is Code.MIGRATED
    assert moved.reason.gain == pytest.approx(8 * HOUR)


@pytest.mark.parametrize("waited", [0.0, 60.0])
def test_no_room_is_kept_for_a_gang_that_others_would_be_moved_for(waited: float) -> None:
    """It waits for devices, not for whole nodes: packing others would only slow them."""
    full = on(job("full", 8), "n0", 0xFF)
    gang = job("gang", 16, locality=Locality(Level.NODE))
    jobs = (full, gang, job("one"), job("two"))
    frame = decided(*jobs, nodes=3, slowdowns=Slowdowns(BAD), submitted=HOUR - waited)
    starts = [frame.decision(name).placement for name in ("one", "two")]
    assert {node for each in starts if each is not None for node in each.nodes()} == {"n1", "n2"}


def singles(*nodes: str, pause: float = 30.0) -> list[JobState]:
    """A job on each of these nodes, which has run for an hour."""
    return [on(job(f"s-{node}", pause=pause), node, 0b1) for node in nodes]


GANG = job("gang", 16, locality=Locality(Level.RACK))


def test_a_gang_over_nodes_gets_whole_ones_if_small_jobs_can_move() -> None:
    """It would fit beside them, and all its 16 workers would wait for the slowest."""
    frame = decided(*singles("n0", "n1", "n2"), GANG, nodes=3, slowdowns=Slowdowns(BAD))
    moved = frame.of(Kind.MIGRATE)
    assert len(moved) == 2 and {each.reason.code for each in moved} == {Code.MIGRATED}
    assert frame.reason("gang").code is Code.WAITING_MIGRATION


@pytest.mark.parametrize(
    "slowdowns, rules, pause",
    [
        (Slowdowns(dict.fromkeys(Common, 0.0)), Rules(), 30.0),  # nobody slows anybody
        (Slowdowns(BAD), Rules(migrate=False), 30.0),
        (Slowdowns(BAD), Rules(strategy="pack"), 30.0),
        (Slowdowns(BAD), Rules(), 3 * HOUR),  # does not pay
    ],
)
def test_otherwise_the_gang_starts_where_it_fits(
    slowdowns: Slowdowns, rules: Rules, pause: float
) -> None:
    there = singles("n0", "n1", "n2", pause=pause)
    frame = decided(*there, GANG, nodes=3, slowdowns=slowdowns, rules=rules)
    assert not frame.of(Kind.MIGRATE)
    assert frame.decision("gang").kind is Kind.START


def test_nobody_is_moved_for_a_gang_that_stays_beside_it() -> None:
    """The node that it would leave is the only one where it can go."""
    gang = job("gang", 17, locality=Locality(Level.RACK))
    frame = decided(*singles("n2"), gang, nodes=3, slowdowns=Slowdowns(BAD))
    assert not frame.of(Kind.MIGRATE)
    assert frame.decision("gang").kind is Kind.START
