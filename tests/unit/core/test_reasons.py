"""Every reason there is: a small scene that gives it, with its figures."""

from dataclasses import replace

import pytest

from muster.core.cycle.cycle_state import Rules
from muster.model.cluster import Cluster
from muster.model.decision import Kind
from muster.model.event import NodeDraining, NodeLost
from muster.model.job import Job, Locality, Need
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.reason import Code, Holder, Quantity, Reason, RequestChange, Shortfall
from muster.model.topology import Level
from muster.model.view import JobState, View
from muster.policy.base import Shares
from muster.policy.published.fifo import Fifo
from tests.builders import GB, cluster, job, mixed, node_set, placement, running, view
from tests.changes import changed
from tests.numbers import name_of, number
from tests.world import Frame, World, flat, on

NODE = Locality(Level.NODE)
SWITCH = Locality(Level.SWITCH)


def one_cycle(
    *jobs: Job | JobState, there: Cluster | None = None, now: float = 0.0, pools: PoolTree | None = None
) -> Frame:
    seen = view(there or cluster(1), jobs, pools)
    states = {
        name: replace(state, submitted=min(state.submitted, now)) for name, state in seen.jobs.items()
    }
    return World(replace(seen, jobs=states), now).cycle()


def unranked(reason: Reason) -> Reason:
    """The reason but for where the job stands in the queue."""
    return replace(reason, rank=None)


def advised(frame: Frame, name: str) -> Frame:
    """The same cycle with the job changed as its reason advises."""
    change = frame.reason(name).would_start
    assert change is not None
    state = frame.before.jobs[number(name)]
    jobs = {**frame.before.jobs, state.number: replace(state, job=changed(state.job, change))}
    return World(replace(frame.before, jobs=jobs), frame.now, frame.memory).cycle()


def test_a_gang_that_fits_starts_at_once() -> None:
    frame = one_cycle(job("j", 4))
    assert frame.decision("j").kind is Kind.START
    assert frame.reason("j") == Reason(Code.STARTED)


def lent() -> list[JobState]:
    """Pool a has half of two nodes and uses a quarter; b uses what is its own."""
    return [
        on(job("a0", 4, most=8, pool="a", preemptible=False), "n0", 0x0F),
        on(job("b0", 8, pool="b"), "n1", 0xFF),
    ]


def test_a_gang_beyond_its_entitlement_starts_on_idle_devices() -> None:
    tree = flat(a=Quota(reservation=8), b=Quota())
    frame = one_cycle(*lent(), job("b1", 4, pool="b"), there=cluster(2), pools=tree)
    assert frame.decision("b1").kind is Kind.START
    assert frame.reason("b1").code is Code.STARTED_BORROWING


def test_one_that_is_not_preemptible_never_borrows() -> None:
    tree = flat(a=Quota(reservation=8), b=Quota(reservation=8))
    asked = job("b1", 4, pool="b", preemptible=False)
    states = [lent()[0], on(job("b0", 8, pool="b", preemptible=False), "n1", 0xFF)]
    frame = one_cycle(*states, asked, there=cluster(2), pools=tree)
    assert frame.reason("b1").code is Code.WAITING_RESERVATION


def patient() -> World:
    """One node with six of eight devices in use until 1,000 s, and a gang of eight out of patience."""
    world = World(view(cluster(1), [on(job("runs", 6, duration=1000.0), "n0", 0x3F), job("large", 8)]))
    world.cycle(700.0)
    return world


def test_a_job_that_ends_before_promised_devices_come_free_is_let_past() -> None:
    world = patient()
    world.submit(job("short", duration=200.0), job("long", duration=900.0))
    frame = world.cycle()
    assert frame.decision("short").kind is Kind.START
    assert frame.reason("short") == Reason(Code.STARTED_BACKFILLED, beneficiary="large")
    assert frame.reason("long").code is Code.WAITING_PROMISE
    assert frame.reason("long").beneficiary == "large"


def test_one_that_ends_just_when_they_come_free_is_let_past() -> None:
    world = patient()
    world.submit(job("exact", duration=300.0))
    assert world.cycle().reason("exact").code is Code.STARTED_BACKFILLED


def test_the_promised_devices_start_the_gang_when_they_are_free() -> None:
    world = patient()
    world.end("runs")
    frame = world.settle()
    assert frame.reason("large") == Reason(Code.STARTED_PROMISED)


def test_a_job_grows_into_idle_devices_up_to_its_most() -> None:
    frame = one_cycle(on(job("j", 2, most=6), "n0", 0x03))
    assert frame.decision("j").kind is Kind.RESIZE
    assert frame.reason("j").code is Code.GROWN
    placed = frame.decision("j").placement
    assert placed is not None and placed.devices == 6


def test_a_grown_job_is_shrunk_for_a_gang_of_its_pool() -> None:
    frame = one_cycle(on(job("grown", 2, most=8), "n0", 0xFF), job("asks", 3))
    assert frame.decision("grown").kind is Kind.RESIZE
    assert frame.reason("grown") == Reason(Code.SHRUNK, beneficiary="asks", cost=3 * 30.0, given=3)
    placed = frame.decision("grown").placement
    assert placed is not None and placed.devices == 5
    assert frame.reason("asks").code is Code.WAITING_RECLAIM
    assert frame.reason("asks").holders == (Holder("grown", "default", 3),)


def test_a_borrower_is_preempted_for_the_owner() -> None:
    tree = flat(owner=Quota(reservation=8), guest=Quota())
    guest = on(job("guest", 8, pool="guest", pause=10.0), "n0", 0xFF, checkpointed=60.0)
    frame = one_cycle(guest, job("asks", 8, pool="owner"), pools=tree, now=100.0)
    assert frame.decision("guest").kind is Kind.PREEMPT
    cost = 8 * (100.0 - 60.0 + 10.0)
    assert frame.reason("guest") == Reason(Code.PREEMPTED, beneficiary="asks", cost=cost, given=8)
    assert unranked(frame.reason("asks")) == Reason(
        Code.WAITING_RECLAIM, holders=(Holder("guest", "guest", 8),)
    )


def scattered(now: float, pause: float = 10.0) -> Frame:
    """Two nodes, each with a small job in the way of a gang of eight on one node."""
    small = [on(job(name, pause=pause), node, 1) for name, node in (("s0", "n0"), ("s1", "n1"))]
    return one_cycle(*small, job("large", 8, locality=NODE), there=cluster(2), now=now)


def test_a_small_job_is_moved_out_of_the_way_and_the_move_is_reported() -> None:
    frame = scattered(now=100.0)
    (moved,) = frame.of(Kind.MIGRATE)
    gain = 8 * 100.0  # the small jobs have run for 100 s, and are expected to run as long again
    assert moved.reason == Reason(Code.MIGRATED, beneficiary="large", cost=10.0, gain=gain, given=1)
    assert frame.reason("large").code is Code.WAITING_MIGRATION
    assert frame.reason("large").holders == (Holder(name_of(moved.job), "default", 1),)
    (report,) = frame.decided.migrations
    assert (report.job, report.moved, report.cost, report.gain) == (
        number("large"),
        (moved.job,),
        10.0,
        gain,
    )
    assert report.fragmentation_before == 1.0
    assert report.fragmentation_after == pytest.approx(6 / 14)


def test_a_move_that_does_not_pay_is_not_made() -> None:
    frame = scattered(now=3.0, pause=30.0)  # 8 devices for 3 s against 30 device-seconds
    assert frame.reason("large").code is Code.WAITING_FRAGMENTED
    assert not frame.decided.migrations


def test_a_running_job_is_told_whether_it_has_all_it_asked_for() -> None:
    frame = one_cycle(
        on(job("all", 4), "n0", 0x0F), on(job("less", 2, most=4), "n0", 0x30), job("asks", 4)
    )
    assert frame.reason("all") == Reason(Code.AT_MOST)
    assert frame.reason("less") == Reason(Code.CONTINUES)


def test_a_job_that_is_being_changed_is_left_alone() -> None:
    world = World(view(cluster(1), [job("j", 2)]))
    world.cycle()
    assert world.cycle().reason("j") == Reason(Code.CHANGING)


def test_waiting_for_the_limit_names_the_pool_that_has_it() -> None:
    tree = PoolTree(
        {
            "lab": Pool("lab", quotas={"A100": Quota(limit=5)}),
            "a": Pool("a", "lab"),
            "b": Pool("b", "lab"),
        }
    )
    frame = one_cycle(on(job("holds", 4, pool="b"), "n0", 0x0F), job("asks", 3, pool="a"), pools=tree)
    assert unranked(frame.reason("asks")) == Reason(
        Code.WAITING_LIMIT,
        quantity=Quantity("lab", "A100", asked=3, used=4, bound=5),
        holders=(Holder("holds", "b", 4),),
        would_start=RequestChange("devices", "1"),
    )
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_waiting_for_the_reservation_advises_to_be_preemptible() -> None:
    holds = on(job("holds", 2, preemptible=False), "n0", 0x03)
    frame = one_cycle(
        holds, job("asks", 3, preemptible=False), pools=flat(default=Quota(reservation=4))
    )
    assert unranked(frame.reason("asks")) == Reason(
        Code.WAITING_RESERVATION,
        quantity=Quantity("default", "A100", asked=3, used=2, bound=4),
        holders=(Holder("holds", "default", 2),),
        would_start=RequestChange("preemptible", "true"),
    )
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_waiting_for_quota_says_what_the_pool_may_use() -> None:
    tree = flat(a=Quota(reservation=4), b=Quota(reservation=4))
    frame = one_cycle(
        on(job("a0", 4, pool="a"), "n0", 0x0F),
        on(job("b0", 3, pool="b"), "n0", 0x70),
        job("a1", 2, pool="a"),
        pools=tree,
    )
    reason = frame.reason("a1")
    assert reason.code is Code.WAITING_QUOTA
    assert reason.quantity == Quantity("a", "A100", asked=2, used=4, bound=5)
    assert reason.holders == (Holder("a0", "a", 4),)
    assert reason.would_start == RequestChange("devices", "1")
    assert advised(frame, "a1").decision("a1").kind is Kind.START


def test_waiting_for_nodes_that_are_lost_or_draining() -> None:
    world = World(view(cluster(2), [job("j", 12)]))
    world.happen(NodeLost("n0", 0.0))
    assert world.cycle().reason("j").code is Code.WAITING_NODES
    draining = World(view(cluster(2), [job("j", 12)]))
    draining.happen(NodeDraining("n0", 0.0))
    reason = draining.cycle().reason("j")
    assert reason.code is Code.WAITING_NODES
    assert reason.shortfall == Shortfall(asked=12, free=8, largest=8, widest=Level.CLUSTER)
    assert reason.would_start == RequestChange("devices", "8")


def test_waiting_for_devices_says_how_many_are_free_and_who_has_the_others() -> None:
    frame = one_cycle(on(job("holds", 6), "n0", 0x3F), job("asks", 4))
    assert unranked(frame.reason("asks")) == Reason(
        Code.WAITING_DEVICES,
        shortfall=Shortfall(asked=4, free=2, largest=2, widest=Level.CLUSTER),
        holders=(Holder("holds", "default", 6),),
        would_start=RequestChange("devices", "2"),
    )
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_fragmented_says_how_much_would_fit_and_which_contract_would_do() -> None:
    """The example of the issue: 16 free, at most 6 of them together, 8 asked."""
    frame = one_cycle(
        on(job("x", 2), "n0", 0x03),
        on(job("y", 2), "n1", 0x03),
        on(job("z", 4), "n2", 0x0F),
        job("asks", 8, locality=NODE),
        there=cluster(3),
        now=0.0,
    )
    assert unranked(frame.reason("asks")) == Reason(
        Code.WAITING_FRAGMENTED,
        shortfall=Shortfall(asked=8, free=16, largest=6, widest=Level.NODE),
        holders=(Holder("x", "default", 2),),
        would_start=RequestChange("locality", "rack"),
    )
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_fragmented_inside_a_node_advises_the_next_wider_level() -> None:
    frame = one_cycle(on(job("x", 2), "n0", 0b101), job("asks", 2, locality=SWITCH))
    assert frame.decision("asks").kind is Kind.START
    states = [on(job(f"x{i}"), "n0", 1 << (2 * i)) for i in range(4)]
    frame = one_cycle(*states, job("asks", 2, locality=SWITCH))
    assert frame.reason("asks").code is Code.WAITING_FRAGMENTED
    assert frame.reason("asks").would_start == RequestChange("locality", "socket")
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_a_slowdown_that_binds_is_named() -> None:
    states = [on(job(f"x{i}", 6), f"n{i}", 0x3F) for i in range(2)]
    asked = job("asks", 4, locality=Locality(max_slowdown=0.05))
    frame = one_cycle(*states, asked, there=cluster(2))
    assert frame.reason("asks").would_start == RequestChange("max_slowdown", "none")
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_another_device_type_that_is_free_is_named() -> None:
    there = mixed((1, node_set()), (1, node_set("v", device_type="V100", generation="volta")))
    frame = one_cycle(
        on(job("holds", 8), "n0", 0xFF), job("asks", 2, device_types=("A100",)), there=there
    )
    assert frame.reason("asks").would_start == RequestChange("any_of", "V100")
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_waiting_for_cores_says_how_many_would_do() -> None:
    hungry = job("hungry", need=Need(1, 30_000, GB))
    frame = one_cycle(
        running(hungry, placement(replace(placement(("n0", 1)).slots[0], need=hungry.workers.need))),
        job("asks", 4),
    )
    reason = frame.reason("asks")
    assert reason.code is Code.WAITING_CORES
    assert reason.would_start == RequestChange("cores", "0.5")
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_waiting_for_memory_says_how_much_would_do() -> None:
    hungry = job("hungry", need=Need(1, 0, 250 * GB))
    slot = replace(placement(("n0", 1)).slots[0], need=hungry.workers.need)
    frame = one_cycle(running(hungry, placement(slot)), job("asks", 2, need=Need(1, 0, 4 * GB)))
    assert frame.reason("asks").code is Code.WAITING_CORES
    assert frame.reason("asks").would_start == RequestChange("memory", "3GB")
    assert advised(frame, "asks").decision("asks").kind is Kind.START


def test_a_job_without_devices_waits_for_cores() -> None:
    frame = one_cycle(
        job("first", need=Need(0, 32_000, GB)), job("second", need=Need(0, 1_000, GB)), there=cluster(1)
    )
    assert frame.decision("first").kind is Kind.START
    assert frame.reason("second").code is Code.WAITING_CORES


def test_fewer_workers_are_called_workers_where_each_has_several_devices() -> None:
    frame = one_cycle(
        on(job("holds", 4), "n0", 0x0F), job("asks", 3, need=Need(2, 1_000, GB)), there=cluster(1)
    )
    assert frame.reason("asks").would_start == RequestChange("workers", "2")
    assert advised(frame, "asks").decision("asks").kind is Kind.START


class Silent(Fifo):
    """A policy that gives some jobs nothing."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Everybody but those whose name begins with x."""
        shares = super().allocate(view, entitlements, now, memory)
        return Shares(tuple(a for a in shares.allocations if not name_of(a.job).startswith("x")))


def test_a_job_that_the_policy_leaves_out_waits_for_the_policy() -> None:
    world = World(view(cluster(1), [job("x"), job("j")]), policy=Silent())
    frame = world.cycle()
    assert unranked(frame.reason("x")) == Reason(Code.WAITING_POLICY)
    assert frame.decision("j").kind is Kind.START


def test_a_job_of_a_type_that_is_not_there_waits_and_stops_nobody() -> None:
    frame = one_cycle(job("odd", device_types=("H100",)), job("j"))
    assert frame.reason("odd").code is Code.WAITING_DEVICES
    assert frame.decision("j").kind is Kind.START


def test_a_limit_binds_before_a_reservation_and_both_before_room() -> None:
    tree = flat(default=Quota(reservation=2, limit=4))
    asked = job("asks", 5, preemptible=False)
    assert one_cycle(asked, pools=tree).reason("asks").code is Code.WAITING_LIMIT
    asked = job("asks", 3, preemptible=False)
    assert one_cycle(asked, pools=tree).reason("asks").code is Code.WAITING_RESERVATION


def test_of_several_types_the_most_hopeful_answer_is_given() -> None:
    """A100 are all in use; of V100 enough are free, but scattered."""
    volta = node_set("v", device_type="V100", generation="volta")
    there = mixed((1, node_set()), (2, volta))
    frame = one_cycle(
        on(job("a", 8), "n0", 0xFF),
        on(job("x", 4), "n1", 0x0F),
        on(job("y", 4), "n2", 0x0F),
        job("asks", 8, device_types=("A100", "V100"), locality=NODE),
        there=there,
    )
    reason = frame.reason("asks")
    assert reason.code is Code.WAITING_FRAGMENTED
    assert reason.shortfall == Shortfall(asked=8, free=8, largest=4, widest=Level.NODE)


def test_rules_can_ask_for_one_strategy() -> None:
    world = World(view(cluster(2), [job("a"), job("b")]), rules=Rules(strategy="pack"))
    world.cycle()
    assert world.bits("a").keys() == world.bits("b").keys()
