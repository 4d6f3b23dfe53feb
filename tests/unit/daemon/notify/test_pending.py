"""Notices are told in order, tried again for a while, and never without bound."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.notify.notice import Notice
from muster.daemon.notify.pending import DELAYS, MOST, Delivery, Notices, read_pending, stored_pending


def notice(number: int = 1) -> Notice:
    return Notice(str(number), "failed", 0.0, "job 1 failed", {"number": 1})


def test_a_subscriber_that_fails_is_tried_again_later_and_later_and_then_given_up() -> None:
    pending, now, tries = Notices(), 0.0, []
    pending.add([Delivery("ann/chat", notice())])
    while pending.deliveries:
        (due,) = pending.due(now)
        pending.note(due, "it answered 500", now)
        tries.append(now)
        now = pending.next_due() or now
    assert [after - before for before, after in pairwise(tries)] == list(DELAYS)
    assert pending.records["ann/chat"].given_up == 1
    assert pending.records["ann/chat"].error == "it answered 500"


def test_one_that_fails_does_not_hold_up_another() -> None:
    pending = Notices()
    pending.add([Delivery("ann/chat", notice(1)), Delivery("bob/chat", notice(1))])
    pending.note(pending.due(0.0)[0], "no", 0.0)
    assert [each.to for each in pending.due(0.0)] == ["bob/chat"]


def test_a_subscriber_is_told_in_order() -> None:
    pending = Notices()
    pending.add([Delivery("ann/chat", notice(number)) for number in range(3)])
    (first,) = pending.due(0.0)
    assert first.notice.id == "0"
    pending.note(first, "no", 0.0)
    assert not pending.due(0.5)
    (again,) = pending.due(1.0)
    assert (again.notice.id, again.attempts) == ("0", 1)


def test_of_too_many_the_newest_are_kept() -> None:
    pending = Notices()
    pending.add([Delivery("ann/chat", notice(number)) for number in range(MOST + 5)])
    assert [each.notice.id for each in (pending.deliveries[0], pending.deliveries[-1])] == [
        "5",
        str(MOST + 4),
    ]
    assert pending.records["ann/chat"].given_up == 5


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=8), st.integers(0, 99))
def test_what_is_on_its_way_outlives_the_daemon(given: list[tuple[str, int]], seq: int) -> None:
    pending = Notices(seq)
    pending.add([Delivery(to, notice(number), attempts=number) for to, number in given])
    after = read_pending(stored_pending(pending), 0)
    assert (after.seq, after.deliveries) == (pending.seq, pending.deliveries)
