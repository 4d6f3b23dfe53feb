"""Draining, by hand: nobody loses work, and the node is empty by its deadline."""

from dataclasses import replace
from typing import Any

import pytest

from muster.core.why.words import tell
from muster.model.decision import Kind
from muster.model.event import Checkpointed, NodeDraining, NodeReturned, Reshaped
from muster.model.job import Job, Program
from muster.model.outlook import Outlook, Table
from muster.model.pool import Quota
from muster.model.reason import Code
from muster.model.view import Phase
from muster.policy.registry import POLICIES
from tests.builders import cluster, job, mixed, node_set, placement, running, view
from tests.numbers import number
from tests.world import World, flat, on

ONE = node_set(devices=1, sockets=1, switches=1)
FOUR = node_set(devices=4)


def world(nodes: int, *jobs: object, kind: object = FOUR, policy: str = "muster") -> World:
    """A world with these states, under a policy."""
    return World(view(cluster(nodes, kind), jobs), now=600.0, policy=POLICIES[policy])  # type: ignore[arg-type]


def plain(name: str, workers: int = 1, **fields: Any) -> Job:
    """A rigid job that starts over after a stop."""
    return job(name, workers, resumes=False, **fields)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("resumes", [True, False])
def test_a_shorter_job_does_not_stop_what_runs_on_a_draining_node(policy: str, resumes: bool) -> None:
    """It could not start there: both would wait, and the device would be idle."""
    there = world(1, on(job("long", resumes=resumes), "n0", 1), kind=ONE, policy=policy)
    there.happen(NodeDraining("n0", there.now))
    there.submit(job("short"))
    table = Table((1.0,))
    beliefs = {number("long"): Outlook(1e6, table), number("short"): Outlook(10.0, table)}
    there.view = replace(there.view, outlooks=beliefs)
    frame = there.cycle(700.0)
    assert not frame.of(Kind.PREEMPT, Kind.MIGRATE)
    assert there.phase("long") is Phase.RUNNING


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_elastic_job_moves_off_a_draining_node_and_keeps_its_size(policy: str) -> None:
    there = world(2, on(job("e", 1, most=3), "n0", 0b111), policy=policy)
    there.happen(NodeDraining("n0", there.now))
    frame = there.cycle()
    assert frame.reason("e").code is Code.RESIZED_DRAINED
    there.settle()
    assert there.bits("e") == {"n1": 0b111}


def test_tasks_on_other_nodes_stay_where_they_are() -> None:
    runs = on(job("e", 1, most=4), "n1", 0b11)
    moved = [replace(slot, node="n0", index=slot.index + 2) for slot in runs.placement.slots]  # type: ignore[union-attr]
    spread = replace(runs, placement=runs.placement.with_slots(moved))  # type: ignore[union-attr]
    there = world(3, spread)
    there.happen(NodeDraining("n0", there.now))
    there.cycle()
    there.settle()
    held = there.bits("e")
    assert "n0" not in held and held["n1"] & 0b11 == 0b11
    assert sum(bits.bit_count() for bits in held.values()) == 4


def test_with_too_little_room_an_elastic_job_shrinks_off_the_node() -> None:
    there = world(2, on(job("e", 1, most=4), "n0", 0b1111), on(job("r", 3), "n1", 0b111))
    there.happen(NodeDraining("n0", there.now))
    there.cycle()
    there.settle()
    assert there.bits("e") == {"n1": 0b1000}


def test_without_room_for_its_gang_it_stays() -> None:
    there = world(2, on(job("e", 2, most=4), "n0", 0b1111), on(job("r", 3), "n1", 0b111))
    there.happen(NodeDraining("n0", there.now))
    assert not there.cycle().of(Kind.RESIZE, Kind.PREEMPT, Kind.MIGRATE)


def test_a_rigid_job_stays_until_its_deadline_less_the_time_to_stop() -> None:
    """A minute to checkpoint and half a minute to end: it is asked 90 s before the deadline."""
    program = Program(checkpoint_signal="SIGUSR1", checkpoint_grace=60.0, grace=30.0)
    there = world(2, on(job("r", 2, program=program), "n0", 0b11))
    there.happen(NodeDraining("n0", 600.0, 1000.0))
    frame = there.cycle()
    assert not frame.decided.decisions and frame.decided.again == 910.0
    assert not there.cycle(309.0).decided.decisions
    frame = there.cycle(1.0)
    assert (frame.decision("r").kind, frame.reason("r").code) == (Kind.MIGRATE, Code.MIGRATED_DRAINED)
    there.settle()
    assert there.bits("r") == {"n1": 0b11}


def test_at_its_deadline_a_job_without_room_elsewhere_goes_back_to_the_queue() -> None:
    there = world(1, on(plain("r", 2, program=Program(grace=10.0)), "n0", 0b11, started=300.0))
    there.happen(NodeDraining("n0", 600.0, 700.0))
    assert not there.cycle(89.0).of(Kind.PREEMPT)
    frame = there.cycle(1.0)
    assert frame.reason("r").code is Code.PREEMPTED_DRAINED
    assert "no checkpoint: 6m30s of work lost" in tell(frame.reason("r"))
    there.settle()
    assert there.phase("r") is Phase.WAITING


SAVES = Program(checkpoint_signal="SIGUSR1")


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [
        (job("r", 2, program=SAVES), 30),  # asked by signal: only the pause of a restart
        (job("r", 2, gang=2, most=4), 30),  # asked by the runtime
        (job("r", 2), 330),  # it goes on from the last checkpoint, if it wrote any
        (job("r", 2, most=4, restarts=True), 330),
        (plain("r", 2), 330),
    ],
)
def test_a_job_that_saves_when_asked_is_told_the_cost_of_a_restart_alone(
    asked: Job, seconds: float
) -> None:
    there = world(1, on(asked, "n0", 0b11, started=300.0))
    there.happen(NodeDraining("n0", 600.0, 600.0))
    reason = there.cycle().reason("r")
    assert (reason.code, reason.cost) == (Code.PREEMPTED_DRAINED, 2 * seconds)


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_a_job_preempted_for_another_that_saves_when_asked_is_told_so_too(policy: str) -> None:
    pools = flat(owner=Quota(reservation=2), guest=Quota())
    guest = on(job("g", 2, pool="guest", program=SAVES), "n0", 0b11, started=300.0)
    kind = node_set(devices=2, sockets=1, switches=1)
    there = World(view(cluster(1, kind), [guest], pools), now=600.0, policy=POLICIES[policy])
    there.submit(job("mine", 2, pool="owner"))
    assert there.cycle().reason("g").cost == 60


def test_a_deadline_binds_jobs_that_are_not_preemptible() -> None:
    pools = flat(default=Quota(reservation=4))
    fixed = on(job("r", 2, preemptible=False), "n0", 0b11)
    there = World(view(cluster(1, FOUR), [fixed], pools), now=600.0)
    there.happen(NodeDraining("n0", 600.0, 600.0))
    assert there.cycle().names(Kind.PREEMPT) == {"r"}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_an_engine_that_gives_a_minute_finds_the_node_empty(policy: str) -> None:
    """Elastic jobs shrink off it, what saves when asked moves or queues: all of them at once, since
    with a grace of 30 s twice (ask, then SIGTERM) there is no time to lose."""
    there = world(2, on(job("e", 1, most=2), "n0", 0b1), on(job("m", 2), "n0", 0b110), policy=policy)
    there.happen(NodeDraining("n0", 600.0, 660.0, "preempted by Slurm"))
    frame = there.cycle()
    assert frame.reason("e").code is Code.RESIZED_DRAINED
    assert frame.reason("m").code is Code.MIGRATED_DRAINED
    assert "n0: preempted by Slurm" in tell(frame.reason("m"))
    there.settle()
    assert set(there.bits("e")) == set(there.bits("m")) == {"n1"}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_without_room_elsewhere_they_are_checkpointed_and_queue(policy: str) -> None:
    there = world(1, on(job("r", 2), "n0", 0b11), policy=policy)
    there.happen(NodeDraining("n0", 600.0, 690.0, "time limit"))
    frame = there.cycle()
    assert not frame.of(Kind.PREEMPT) and frame.decided.again <= 630.0
    frame = there.cycle(30.0)
    assert frame.reason("r").code is Code.PREEMPTED_DRAINED
    assert "n0: time limit" in tell(frame.reason("r"))


def test_a_drain_without_a_deadline_withdraws_the_one_before_and_resume_undoes_both() -> None:
    there = world(1, on(plain("r"), "n0", 1))
    there.happen(NodeDraining("n0", 600.0, 700.0), NodeDraining("n0", 610.0))
    assert not there.cycle(1000.0).decided.decisions
    there.happen(NodeDraining("n0", 1600.0, 1700.0), NodeReturned("n0", 1610.0))
    assert there.view.cluster.node("n0").until is None
    assert not there.cycle(1000.0).of(Kind.PREEMPT)


def test_what_comes_free_on_a_draining_node_is_not_waited_for() -> None:
    """It could use all eight, but r's four go away with n0: it starts with the three there are."""
    there = world(2, on(plain("r", 4), "n0", 0b1111), on(plain("s"), "n1", 1), policy="afs")
    there.happen(NodeDraining("n0", 600.0, 600.0))
    there.submit(job("e", 2, most=8))
    frame = there.cycle()
    assert (frame.names(Kind.PREEMPT), frame.names(Kind.START)) == ({"r"}, {"e"})


# Who gives way


def contested(policy: str) -> World:
    """One device, a long job on it, and a short one that waits."""
    there = world(1, on(plain("long"), "n0", 1), kind=ONE, policy=policy)
    there.submit(plain("short"))
    table = Table((1.0,))
    beliefs = {number("long"): Outlook(1e6, table), number("short"): Outlook(10.0, table)}
    there.view = replace(there.view, outlooks=beliefs)
    return there


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_equals_do_not_preempt_a_job_that_would_start_over(policy: str) -> None:
    there = contested(policy)
    for seconds in (0.0, 5000.0, 50_000.0):
        assert not there.cycle(seconds).of(Kind.PREEMPT)


# Tetris and Tiresias, as published, leave a running job as it is.
@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"tetris", "tiresias", "tiresias-g"}))
@pytest.mark.parametrize("workers", [1, 3])
def test_its_user_may_resize_it_all_the_same(policy: str, workers: int) -> None:
    there = world(1, on(plain("mine", 2), "n0", 0b11), policy=policy)
    there.happen(Reshaped(number("mine"), plain("mine", workers).roles, 600.0))
    there.view = replace(there.view, outlooks={number("mine"): Outlook(1e6, Table((1.0, 1.9, 2.7)))})
    frame = there.cycle()
    assert frame.names(Kind.RESIZE) == {"mine"}


def test_equals_preempt_a_job_that_has_written_a_checkpoint() -> None:
    there = contested("srtf")
    there.happen(Checkpointed(number("long"), 1, 590.0))
    there.view = replace(there.view, outlooks=contested("srtf").view.outlooks)
    frame = there.cycle()
    assert frame.names(Kind.PREEMPT) == {"long"}
    assert frame.reason("long").lost is None


def test_a_higher_priority_preempts_it_and_says_what_was_lost() -> None:
    there = world(1, on(plain("low"), "n0", 1, started=0.0), kind=ONE, policy="srtf")
    there.submit(job("high", priority=1))
    frame = there.cycle()
    assert frame.names(Kind.PREEMPT) == {"low"}
    assert tell(frame.reason("low")) == (
        "the policy gives its devices to other jobs; 1 device for high; costs 630 device-seconds; "
        "no checkpoint: 10m00s of work lost; length unknown, behind high (length unknown, priority 1)"
    )


def test_of_those_that_can_go_the_one_that_keeps_its_work_goes() -> None:
    """srtf would stop the job with most left; that one would start over."""
    jobs = on(plain("frail"), "n0", 0b1), on(job("sturdy"), "n0", 0b10)
    there = world(1, *jobs, kind=node_set(devices=2, sockets=1, switches=1), policy="srtf")
    there.submit(job("high", priority=1))
    table = Table((1.0,))
    lengths = {"frail": 1e6, "sturdy": 1e3, "high": 1e4}
    beliefs = {number(name): Outlook(left, table) for name, left in lengths.items()}
    there.view = replace(there.view, outlooks=beliefs)
    assert there.cycle().names(Kind.PREEMPT) == {"sturdy"}


@pytest.mark.parametrize("policy", ["fifo", "muster", "srtf"])
@pytest.mark.parametrize("reserved", [0, 1])
def test_a_reservation_is_reclaimed_from_it_but_a_share_is_not(policy: str, reserved: int) -> None:
    guests = [on(plain("g0", pool="guest"), "n0", 1), on(plain("g1", pool="guest"), "n0", 2)]
    pools = flat(owner=Quota(reservation=reserved), guest=Quota())
    there = World(
        view(cluster(1, node_set(devices=2, sockets=1, switches=1)), guests, pools),
        now=600.0,
        policy=POLICIES[policy],
    )
    there.submit(job("mine", pool="owner"))
    frame = there.cycle()
    assert len(frame.names(Kind.PREEMPT)) == reserved
    for name in frame.names(Kind.PREEMPT):
        assert frame.reason(name).code is Code.PREEMPTED
        assert frame.reason(name).beneficiary == "mine"
    there.settle()
    assert (there.phase("mine") is Phase.WAITING) == (not reserved)


@pytest.mark.parametrize("policy", ["fifo", "muster", "srtf"])
def test_a_pool_takes_back_its_own_under_its_own_code(policy: str) -> None:
    guests = [on(job(f"g{i}", pool="guest"), "n0", 1 << i) for i in range(2)]
    pools = flat(owner=Quota(reservation=2), guest=Quota())
    there = World(
        view(cluster(1, node_set(devices=2, sockets=1, switches=1)), guests, pools),
        now=600.0,
        policy=POLICIES[policy],
    )
    there.submit(job("mine", 2, pool="owner"))
    frame = there.cycle()
    assert {frame.reason(name).code for name in frame.names(Kind.PREEMPT)} == {Code.PREEMPTED}
    assert len(frame.names(Kind.PREEMPT)) == 2


@pytest.mark.parametrize(("leaves", "stays"), [("n0", "n1"), ("n1", "n0")])
def test_a_job_on_devices_of_two_types_goes_on_with_those_that_stay(leaves: str, stays: str) -> None:
    old = node_set("t", device_type="T4", generation="turing", devices=1, sockets=1, switches=1)
    state = running(job("e", 1, most=2), placement(("n0", 1), ("n1", 1)))
    there = World(view(mixed((1, ONE), (1, old)), [state]), now=600.0, policy=POLICIES["muster"])
    there.happen(NodeDraining(leaves, there.now))
    frame = there.cycle()
    assert frame.reason("e").code is Code.RESIZED_DRAINED
    there.settle()
    assert there.bits("e") == {stays: 1}
