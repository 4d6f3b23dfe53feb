"""Links are shared fairly; streams wait for gates, follow each other and end when they should."""

import numpy as np
import pytest

from muster.perf.traffic import Place
from muster.perf.wires import LinkClass, Wire
from support.judge.fair import FREE, Gates, Item, Stream, Uses, max_min, run

A: Place = (LinkClass(Wire.NIC, "a"), 0, 0)
B: Place = (LinkClass(Wire.NIC, "a"), 1, 0)
NOTHING = -1


def flow(size: float, *places: Place, after: int = NOTHING, times: float = 1.0) -> Stream:
    uses: Uses = {(place, True): times for place in places}
    return Stream(uses, (Item(size, after, NOTHING),))


def end_of(*streams: Stream, gates: Gates | None = None, rate: float = 10.0) -> float:
    return run(streams, gates or Gates([], []), lambda _: rate).end


def rates(counts: list[list[float]], capacity: list[float]) -> list[float]:
    active = np.ones(len(counts[0]), dtype=np.bool_)
    return list(max_min(np.array(counts, float), np.array(capacity, float), active))


def test_two_transfers_halve_a_link() -> None:
    assert rates([[1, 1]], [10]) == [5, 5]


def test_what_one_cannot_use_the_other_gets() -> None:
    # The first crosses a link of 2 beside the shared one of 10.
    assert rates([[1, 1], [1, 0]], [10, 2]) == [2, 8]


def test_the_tightest_link_of_three_comes_first() -> None:
    # One transfer over all three links, and one more on each.
    assert rates([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]], [10, 6, 4]) == [2, 8, 4, 2]


def test_alike_transfers_count_as_many() -> None:
    assert rates([[3, 1]], [12]) == [3, 3]


def test_a_transfer_that_crosses_nothing_is_free() -> None:
    assert rates([[0, 1]], [10]) == [FREE, 10]


def test_a_transfer_takes_its_bytes_over_the_links_rate() -> None:
    assert end_of(flow(50, A)) == pytest.approx(5)


def test_when_one_of_two_ends_the_other_has_the_link_alone() -> None:
    # 5/s each: the small one ends at 4 s, when the large one has 40 left: 4 s more at 10/s.
    assert end_of(flow(20, A), flow(60, A)) == pytest.approx(8)


def test_transfers_on_different_links_do_not_meet() -> None:
    assert end_of(flow(50, A), flow(50, B)) == pytest.approx(5)


def test_the_two_ways_of_a_link_do_not_meet() -> None:
    back = Stream({(A, False): 1.0}, (Item(50, NOTHING, NOTHING),))
    assert end_of(flow(50, A), back) == pytest.approx(5)


def test_a_transfer_starts_when_its_gate_opens() -> None:
    gates = Gates([], [])
    assert end_of(flow(50, A, after=gates.at(3.0)), gates=gates) == pytest.approx(8)


def test_a_late_transfer_slows_what_is_under_way() -> None:
    # Alone until 2 s (20 done), then 5/s each: the first ends at 8 s, the second has 20 left.
    gates = Gates([], [])
    assert end_of(flow(50, A), flow(50, A, after=gates.at(2.0)), gates=gates) == pytest.approx(10)


def test_a_gate_opens_when_all_its_reports_have_come() -> None:
    gates = Gates([], [])
    both = gates.new(2)
    slow = Stream({(A, True): 1.0}, (Item(50, NOTHING, both),))
    fast = Stream({(B, True): 1.0}, (Item(10, NOTHING, both),))
    course = run([slow, fast, flow(10, B, after=both)], gates, lambda _: 10.0)
    assert course.opened[both] == pytest.approx(5)
    assert course.end == pytest.approx(6)


def test_a_gate_whose_reports_never_come_stays_shut() -> None:
    gates = Gates([], [])
    never = gates.new(1)
    course = run([flow(10, A, after=never)], gates, lambda _: 10.0)
    assert course.opened[never] == float("inf")


@pytest.mark.parametrize(("lockstep", "end"), [(True, 12.0), (False, 11.0)])
def test_in_lock_step_the_next_item_waits_for_the_latency(lockstep: bool, end: float) -> None:
    two = (Item(50, NOTHING, NOTHING), Item(50, NOTHING, NOTHING))
    assert end_of(Stream({(A, True): 1.0}, two, 1.0, lockstep=lockstep)) == pytest.approx(end)
