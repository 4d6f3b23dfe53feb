"""The ledger: each refusal, optimism about versions, and many planners at once."""

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from muster.core.quotas.ledger import Approved, ClaimError, Conflict, Ledger, LedgerView, Rejected, Why
from muster.model.cluster import NodeState
from muster.model.job import Need, Role
from muster.model.placement import Claim, Slot
from muster.model.topology import each_bit
from muster.model.view import View
from tests.builders import GB, cluster, job, node_set, placement, running, slot, view
from tests.numbers import number

BARE = slot("n0", 0, role=Role.SERVER, need=Need(millicores=1_000, memory=GB))
OLD = placement(("n0", 0b0011), ("n1", 0b0001))
PLANNERS = 8


def books() -> Ledger:
    """Two nodes of 8 devices at version 5; job `old` holds 0b11 of n0 and 0b1 of n1."""
    return Ledger.of(view(cluster(2), [running(job("old", 2), OLD)], version=5))


def claim(name: str, *takes: Slot, version: int = 5, gives: tuple[Slot, ...] = ()) -> Claim:
    return Claim(number(name), version, takes, gives)


def refusal(ledger: Ledger, asked: Claim) -> tuple[Conflict, ...]:
    """The conflicts of a claim that must be rejected and must leave the books as they are."""
    before = ledger.snapshot(), ledger.held(asked.job)
    answer = ledger.commit(asked)
    assert isinstance(answer, Rejected)
    assert answer.version == before[0].version
    assert (ledger.snapshot(), ledger.held(asked.job)) == before
    return answer.conflicts


def test_the_books_open_as_the_view_has_them() -> None:
    ledger = books()
    assert ledger.snapshot() == LedgerView(
        5, (0b11111100, 0b11111110), (31_000, 31_000), (255 * GB, 255 * GB)
    )
    assert ledger.held(number("old")) == OLD.slots


def test_a_gang_gets_all_it_claims_and_the_version_rises() -> None:
    ledger = books()
    takes = (slot("n0", 0b1100), slot("n1", 0b0110, 1))
    assert ledger.commit(claim("new", *takes)) == Approved(6)
    assert ledger.held(number("new")) == takes
    assert ledger.snapshot() == LedgerView(
        6, (0b11110000, 0b11111000), (30_000, 30_000), (254 * GB, 254 * GB)
    )


def test_held_bits_are_named_with_their_holder() -> None:
    conflicts = refusal(books(), claim("new", slot("n0", 0b0110), slot("n1", 0b1000, 1)))
    assert conflicts == (Conflict("n0", 0b0010, (number("old"),), Why.HELD),)


def test_every_conflict_of_a_claim_is_named() -> None:
    ledger = books()
    ledger.commit(claim("mid", slot("n0", 0b0100)))
    asked = claim("new", slot("n0", 0b1110), slot("n1", 0b0001, 1))
    assert refusal(ledger, asked) == (
        Conflict("n0", 0b0110, (number("mid"), number("old")), Why.HELD),
        Conflict("n1", 0b0001, (number("old"),), Why.HELD),
    )


def test_two_takes_of_a_claim_must_not_overlap() -> None:
    conflicts = refusal(books(), claim("new", slot("n0", 0b01100), slot("n0", 0b11000, 1)))
    assert conflicts == (Conflict("n0", 0b01000, (), Why.OVERLAP),)


def test_a_device_that_is_not_there_cannot_be_taken() -> None:
    conflicts = refusal(books(), claim("new", slot("n0", 0b1_1000_0000)))
    assert conflicts == (Conflict("n0", 0b1_0000_0000, (), Why.NO_DEVICE),)


def test_a_node_that_is_not_there_has_nothing_to_take() -> None:
    conflicts = refusal(books(), claim("new", slot("n7", 0b1)))
    assert conflicts == (Conflict("n7", 0b1, (), Why.NO_NODE),)


@pytest.mark.parametrize("state", [NodeState.DRAINING, NodeState.LOST])
def test_a_node_that_is_not_up_takes_nothing_new(state: NodeState) -> None:
    empty = cluster(2)
    nodes = (replace(empty.nodes[0], state=state), empty.nodes[1])
    ledger = Ledger.of(view(replace(empty, nodes=nodes)))
    conflicts = refusal(ledger, claim("new", slot("n1", 1), slot("n0", 1, 1), version=0))
    assert conflicts == (Conflict("n0", 1, (), Why.NOT_UP),)


def test_cores_may_run_out_before_devices_do() -> None:
    hungry = Need(1, millicores=16_000)
    asked = claim("new", slot("n0", 0b0100, need=hungry), slot("n0", 0b1000, 1, need=hungry))
    assert refusal(books(), asked) == (Conflict("n0", 0, (number("old"),), Why.CORES),)


def test_memory_may_run_out_before_devices_do() -> None:
    asked = claim("new", slot("n0", 0b0100, need=Need(1, memory=256 * GB)))
    assert refusal(books(), asked) == (Conflict("n0", 0, (number("old"),), Why.MEMORY),)


def test_only_what_is_held_can_be_given_back() -> None:
    mine_not = OLD.slots[0]
    conflicts = refusal(books(), claim("new", slot("n0", 0b100), gives=(mine_not,)))
    assert conflicts == (Conflict("n0", 0b11, (number("old"),), Why.NOT_YOURS),)


def test_nothing_is_given_back_twice() -> None:
    conflicts = refusal(books(), claim("old", gives=(OLD.slots[0], OLD.slots[0])))
    assert conflicts == (Conflict("n0", 0b11, (number("old"),), Why.NOT_YOURS),)


def test_giving_back_on_an_unknown_node_is_refused() -> None:
    conflicts = refusal(books(), claim("old", gives=(slot("n7", 0b1),)))
    assert conflicts == (Conflict("n7", 0b1, (), Why.NOT_YOURS),)


def test_a_task_without_devices_is_not_booked_twice() -> None:
    ledger = books()
    assert refusal(ledger, claim("new", BARE, BARE)) == (
        Conflict("n0", 0, (number("new"),), Why.TWICE),
    )
    assert ledger.commit(claim("new", BARE)) == Approved(6)
    assert refusal(ledger, claim("new", BARE)) == (Conflict("n0", 0, (number("new"),), Why.TWICE),)
    assert ledger.commit(claim("other", BARE)) == Approved(7)


def test_the_same_claim_a_second_time_is_refused() -> None:
    ledger = books()
    asked = claim("new", slot("n0", 0b100))
    ledger.commit(asked)
    assert refusal(ledger, asked) == (Conflict("n0", 0b100, (number("new"),), Why.HELD),)


def test_a_job_may_take_the_bits_it_gives_back() -> None:
    ledger = books()
    wider = slot("n0", 0b0111)
    assert ledger.commit(claim("old", wider, gives=(OLD.slots[0],))) == Approved(6)
    assert set(ledger.held(number("old"))) == {wider, OLD.slots[1]}
    assert ledger.snapshot().free == (0b11111000, 0b11111110)


def test_another_job_may_not_take_bits_while_they_are_only_about_to_be_free() -> None:
    conflicts = refusal(books(), claim("new", slot("n0", 0b0001)))
    assert conflicts[0].holders == (number("old"),)


def test_a_claim_may_only_give_back() -> None:
    ledger = books()
    assert ledger.commit(claim("old", gives=(OLD.slots[1],))) == Approved(6)
    assert ledger.held(number("old")) == (OLD.slots[0],)
    assert ledger.snapshot().millicores == (31_000, 32_000)


def test_what_a_draining_node_holds_can_be_given_back() -> None:
    start = view(cluster(2), [running(job("old", 2), OLD)])
    nodes = (replace(start.cluster.nodes[0], state=NodeState.DRAINING), start.cluster.nodes[1])
    ledger = Ledger.of(replace(start, cluster=replace(start.cluster, nodes=nodes)))
    moved = claim("old", slot("n1", 0b110), gives=(OLD.slots[0],), version=0)
    assert ledger.commit(moved) == Approved(1)


# Versions


def test_an_old_claim_is_approved_if_nothing_it_takes_was_taken_since() -> None:
    ledger = books()
    ledger.commit(claim("first", slot("n0", 0b0100)))
    assert ledger.commit(claim("second", slot("n0", 0b1000), version=5)) == Approved(7)


def test_an_old_claim_is_rejected_with_the_bits_that_were_taken_since() -> None:
    ledger = books()
    ledger.commit(claim("first", slot("n0", 0b0100)))
    conflicts = refusal(ledger, claim("second", slot("n0", 0b1100), version=5))
    assert conflicts == (Conflict("n0", 0b0100, (number("first"),), Why.HELD),)


def test_an_old_claim_may_take_what_was_freed_since() -> None:
    ledger = books()
    ledger.release(number("old"))
    assert isinstance(ledger.commit(claim("new", slot("n0", 0b1), version=5)), Approved)


def test_a_claim_from_the_future_is_an_error() -> None:
    with pytest.raises(ClaimError, match="version 6"):
        books().commit(claim("new", slot("n0", 0b100), version=6))


# Releases


def test_a_released_job_holds_nothing() -> None:
    ledger = books()
    assert ledger.release(number("old")) == 6
    assert ledger.held(number("old")) == ()
    full = node_set()
    assert ledger.snapshot() == LedgerView(
        6, (full.all_devices,) * 2, (full.millicores,) * 2, (full.memory,) * 2
    )


def test_releasing_a_job_that_holds_nothing_changes_nothing() -> None:
    ledger = books()
    assert ledger.release(number("nobody")) == 5


def test_a_snapshot_does_not_change_afterwards() -> None:
    ledger = books()
    before = ledger.snapshot()
    ledger.release(number("old"))
    assert before.free == (0b11111100, 0b11111110)


# Many planners at once


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns far more often than usual, so that they meet inside the ledger."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def gang(rng: random.Random, free: tuple[int, ...]) -> tuple[Slot, ...]:
    """One to four one-device tasks on any free devices."""
    spots = [(node, bit) for node, bits in enumerate(free) for bit in each_bit(bits)]
    chosen = rng.sample(spots, min(len(spots), rng.randint(1, 4)))
    return tuple(slot(f"n{node}", 1 << bit, i) for i, (node, bit) in enumerate(chosen))


def fill(ledger: Ledger, planner: int, barrier: Barrier) -> list[Claim]:
    """Propose gangs until nothing is free; the claims that were approved."""
    rng = random.Random(planner)
    approved: list[Claim] = []
    barrier.wait()
    while takes := gang(rng, (seen := ledger.snapshot()).free):
        asked = Claim(number(f"p{planner}-{len(approved)}"), seen.version, takes)
        if isinstance(ledger.commit(asked), Approved):
            approved.append(asked)
    return approved


def on_threads(start: View) -> tuple[Ledger, list[Claim]]:
    ledger, barrier = Ledger.of(start), Barrier(PLANNERS)
    with ThreadPoolExecutor(PLANNERS) as pool:
        work = [pool.submit(fill, ledger, planner, barrier) for planner in range(PLANNERS)]
        return ledger, [asked for one in work for asked in one.result(timeout=60)]


@pytest.mark.usefixtures("restless")
def test_planners_at_once_never_share_a_device_split_a_gang_or_lose_an_update() -> None:
    start = view(cluster(24))
    ledger, approved = on_threads(start)
    taken = [(place.node, place.bits) for asked in approved for place in asked.takes]
    assert len(taken) == len(set(taken)) == 24 * 8
    for asked in approved:
        assert ledger.held(asked.job) == asked.takes
    after = ledger.snapshot()
    assert after.version == start.version + len(approved)
    assert after.free == (0,) * 24
    assert after.millicores == (32_000 - 8 * 1_000,) * 24
    assert after.memory == ((256 - 8) * GB,) * 24


def churn(ledger: Ledger, planner: int, barrier: Barrier) -> int:
    """Take and release gangs over and over; how often the books were changed."""
    rng = random.Random(planner)
    changes = 0
    barrier.wait()
    for _ in range(100):
        seen = ledger.snapshot()
        takes = gang(rng, seen.free)
        if isinstance(ledger.commit(Claim(number(f"p{planner}"), seen.version, takes)), Approved):
            ledger.release(number(f"p{planner}"))
            changes += 2 if takes else 1
    return changes


@pytest.mark.usefixtures("restless")
def test_what_all_planners_release_is_all_free_again() -> None:
    start = view(cluster(2))
    ledger, barrier = Ledger.of(start), Barrier(PLANNERS)
    opened = ledger.snapshot()
    with ThreadPoolExecutor(PLANNERS) as pool:
        work = [pool.submit(churn, ledger, planner, barrier) for planner in range(PLANNERS)]
        changes = sum(one.result(timeout=60) for one in work)
    assert ledger.snapshot() == replace(opened, version=changes)
