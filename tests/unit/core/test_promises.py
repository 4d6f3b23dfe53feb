"""Promises: what is withheld for a gang, from whom, and for how long."""

from dataclasses import replace

from muster.core.cycle.cycle import Memory
from muster.model.decision import Kind, Promise
from muster.model.event import Cancelled
from muster.model.job import Job, Locality
from muster.model.pool import Entitlements, Quota
from muster.model.reason import Code
from muster.model.topology import Level
from muster.model.view import JobState, Phase, View
from muster.policy.base import Shares
from muster.policy.published.fifo import Fifo
from tests.builders import cluster, job, placement, view
from tests.numbers import number
from tests.world import World, flat, on

NODE = Locality(Level.NODE)


def patient(*younger: str) -> World:
    """Two nodes, one of them full until 1,000 s and one for longer, and a gang out of patience."""
    world = World(
        view(
            cluster(2),
            [
                on(job("soon", 8, duration=1000.0), "n0", 0xFF),
                on(job("late", 6, duration=9000.0), "n1", 0x3F),
                job("large", 8, locality=NODE),
                *(job(name) for name in younger),
            ],
        )
    )
    world.cycle(700.0)
    return world


def test_within_its_patience_a_gang_lets_younger_ones_pass() -> None:
    world = World(view(cluster(1), [on(job("runs", 6), "n0", 0x3F), job("large", 8), job("small")]))
    frame = world.cycle(100.0)
    assert frame.names(Kind.START) == {"small"}
    assert not world.memory.promises


def test_after_that_it_is_promised_what_comes_free_first() -> None:
    (promise,) = patient().memory.promises
    assert promise.job == number("large")
    assert promise.placement.bits() == {"n0": 0xFF}
    assert promise.cause is Code.WAITING_DEVICES
    assert promise.expected == 1000.0


def test_what_is_not_promised_goes_to_whoever_is_next() -> None:
    world = patient()
    world.submit(*(job(f"s{i}") for i in range(4)))
    world.cycle(1.0)
    started = [f"s{i}" for i in range(4) if world.phase(f"s{i}") is Phase.STARTING]
    assert [world.bits(name).keys() for name in started] == [{"n1"}, {"n1"}]


def test_a_promise_is_kept_from_cycle_to_cycle_and_looked_for_anew_after_a_while() -> None:
    world = patient()
    (first,) = world.memory.promises
    world.cycle(60.0)
    assert world.memory.promises == (first,)
    world.end("late")
    world.cycle(60.0)
    assert world.phase("large") is Phase.STARTING  # on n1, though n0 was promised
    assert not world.memory.promises


def test_a_promise_whose_job_was_cancelled_is_forgotten() -> None:
    world = patient("small")
    world.happen(Cancelled(number("large"), world.now))
    world.end("soon")
    world.cycle(1.0)
    assert not world.memory.promises


def test_a_promise_does_not_go_to_another_job_of_the_same_name() -> None:
    world = patient()
    world.happen(Cancelled(number("large"), world.now))
    world.submit(job("large", 4, locality=NODE))
    frame = world.cycle(1.0)
    assert frame.decision("large").kind is Kind.WAIT
    assert not world.memory.promises


class Fickle(Fifo):
    """A policy that gives the large job nothing."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Everybody else."""
        whole = super().allocate(view, entitlements, now, memory)
        return Shares(tuple(a for a in whole.allocations if a.job != number("large")))


def test_a_promise_to_a_job_that_the_policy_leaves_out_binds_nobody() -> None:
    world = patient()
    world.end("soon")
    world.submit(job("other", 8, locality=NODE))
    world.policy = Fickle()
    frame = world.cycle(1.0)
    assert frame.names(Kind.START) == {"other"}
    assert frame.reason("large").code is Code.WAITING_DEVICES


def test_a_promise_that_has_lapsed_binds_nobody() -> None:
    slots = placement(*(("n0", 1 << i) for i in range(8)))
    old = Promise(number("large"), slots, Code.WAITING_MIGRATION, until=10.0)
    jobs: list[Job | JobState] = [on(job("runs", 8), "n1", 0xFF), job("large", 12), job("small")]
    world = World(view(cluster(2), jobs), 10.0, Memory(promises=(old,)))
    assert world.cycle().names(Kind.START) == {"small"}


def test_one_that_was_paid_for_and_has_not_lapsed_does() -> None:
    slots = placement(*(("n0", 1 << i) for i in range(8)), *(("n1", 1 << i) for i in range(4)))
    fresh = Promise(number("large"), slots, Code.WAITING_MIGRATION, until=10.0)
    jobs: list[Job | JobState] = [on(job("runs", 8), "n1", 0xFF), job("large", 12), job("small")]
    world = World(view(cluster(2), jobs), 9.0, Memory(promises=(fresh,)))
    frame = world.cycle()
    assert not frame.of(Kind.START)
    assert frame.reason("small").code is Code.WAITING_PROMISE
    assert frame.reason("small").beneficiary == "large"


def test_a_more_urgent_job_may_use_what_was_promised_at_no_cost() -> None:
    world = patient()
    world.end("soon")
    world.submit(job("urgent", 8, locality=NODE, priority=1))
    frame = world.cycle(1.0)
    assert frame.names(Kind.START) == {"urgent"}
    assert frame.decision("large").kind is Kind.WAIT


def test_an_older_job_of_the_pool_may_use_what_the_pool_has_taken_back_for_a_younger_one() -> None:
    guest = on(job("guest", 8, pool="b"), "n0", 0xFF)
    owned = flat(a=Quota(reservation=8), b=Quota())
    world = World(view(cluster(1), [guest, job("young", 8, pool="a")], owned), 100.0)
    world.cycle()
    world.complete()
    old = replace(world.view.jobs[number("young")], job=job("old", 8, pool="a"), submitted=0.0)
    world.view = replace(world.view, jobs={**world.view.jobs, old.number: old})
    assert world.cycle(1.0).names(Kind.START) == {"old"}


def test_nobody_of_another_pool_may_use_it() -> None:
    guest = on(job("guest", 8, pool="b"), "n0", 0xFF)
    owned = flat(a=Quota(reservation=8), b=Quota(), c=Quota())
    world = World(view(cluster(1), [guest, job("asks", 8, pool="a")], owned), 100.0)
    world.cycle()
    world.complete()
    world.submit(job("urgent", 1, pool="c", priority=9))
    assert world.cycle(1.0).names(Kind.START) == {"asks"}


def test_a_promise_changes_nothing_about_who_borrows() -> None:
    """What is promised to a pool is not in its use: its jobs are not preempted for that."""
    pools = flat(a=Quota(reservation=8), b=Quota(reservation=8))
    states = [
        on(job("a0", 4, pool="a", duration=9000.0), "n0", 0x0F),
        on(job("b0", 8, pool="b", duration=9000.0), "n1", 0xFF),
        on(job("b1", 4, pool="b", duration=9000.0), "n0", 0xF0),
    ]
    world = World(view(cluster(2), [*states, job("a1", 6, pool="a")], pools))
    frame = world.cycle(700.0)
    assert not frame.names(Kind.PREEMPT) & {"a0"}


def test_after_long_waiting_for_its_own_pool_younger_ones_of_the_pool_no_longer_pass() -> None:
    """Pool a is entitled to 8 of 16; its gang of 8 waits behind a stream of small ones of a."""
    pools = flat(a=Quota(reservation=8), b=Quota(reservation=8))
    states = [on(job(f"s{i}", pool="a"), "n0", 1 << i) for i in range(8)]
    other = on(job("b0", 8, pool="b"), "n1", 0xFF)
    world = World(view(cluster(2), [*states, other, job("large", 8, pool="a")], pools))
    world.cycle(700.0)
    world.settle(1.0)
    world.end(*(f"s{i}" for i in range(7)))
    world.submit(*(job(f"later{i}", pool="a") for i in range(3)))
    frame = world.cycle(60.0)
    assert not frame.names(Kind.START) & {f"later{i}" for i in range(3)}
    assert frame.decision("large").kind is Kind.WAIT
    world.end("s7")
    assert "large" in world.settle(60.0).names(Kind.START)


def test_what_is_kept_for_an_old_job_that_is_not_preemptible_binds_only_its_likes() -> None:
    pools = flat(a=Quota(reservation=4), b=Quota())
    holds = on(job("holds", 4, pool="a", preemptible=False), "n0", 0x0F)
    old = job("old", 2, pool="a", preemptible=False)
    world = World(view(cluster(1), [holds, old, job("loose", 1, pool="a")], pools))
    assert world.cycle(700.0).names(Kind.START) == {"loose"}


def test_what_is_kept_for_an_old_job_does_not_keep_it_from_borrowing() -> None:
    """a may use 4 and has 2; with a gang of 4 it would be 6, of its limit of 6."""
    pools = flat(a=Quota(reservation=4, limit=6), b=Quota(reservation=4))
    states = [
        on(job("a0", 2, pool="a"), "n0", 0x03),
        on(job("b0", 2, most=4, pool="b", preemptible=False), "n0", 0x0C),
    ]
    world = World(view(cluster(1), [*states, job("old", 4, pool="a")], pools))
    frame = world.cycle(700.0)
    assert frame.names(Kind.START) == {"old"}
    assert frame.reason("old").code is Code.STARTED_BORROWING


def test_backfill_needs_a_known_end_on_both_sides() -> None:
    world = World(
        view(
            cluster(1),
            [on(job("runs", 6), "n0", 0x3F), job("large", 8), job("short", duration=1.0), job("open")],
        )
    )
    frame = world.cycle(700.0)
    assert world.memory.promises[0].expected is None
    assert not frame.of(Kind.START)
