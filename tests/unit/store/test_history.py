"""Curves and spans: what a store keeps of the past, how much of it, and how it is read."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from muster.store.batch import Batch, CurvePoint, Span
from muster.store.curves import MOST, OLD
from muster.store.store import Store
from muster.wire.api.records import JobRecord
from muster.wire.api.sweep_records import SweepRecord
from tests.unit.store.samples import arrivals, record

DAY = 86_400.0


def points(number: int, steps: range, what: str = "loss") -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(number, what, s, s + 1.0, 1.0 / (s + 1), 32 * s, 2) for s in steps)


def span(number: int, began: float, ended: float | None = None, **more: object) -> Span:
    return Span(number, began, "running", {"n0": (0, 1)}, 2, ended=ended, **more)  # type: ignore[arg-type]


def over(number: int, ended: float, **more: object) -> JobRecord:
    return record(number, status="succeeded", submitted=ended - 10.0, ended=ended, **more)


def test_a_curve_is_read_as_it_was_written(store: Store) -> None:
    store.write(Batch(points=(*points(1, range(3)), *points(1, range(2), "accuracy"))))
    store.write(Batch(points=(replace(points(1, range(3))[2], value=9.0), *points(2, range(9)))))
    found = store.curves(1)
    assert [(each.what, each.step) for each in found] == [
        ("accuracy", 0),
        ("accuracy", 1),
        ("loss", 0),
        ("loss", 1),
        ("loss", 2),
    ]
    assert found[-1] == CurvePoint(1, "loss", 2, 3.0, 9.0, 64, 2), "a repeated step replaces its point"
    assert [each.step for each in store.curves(1, after=2.0)] == [2]
    assert store.curves(3) == []


def test_a_long_curve_keeps_its_shape_and_its_end(store: Store) -> None:
    for first in range(0, 8 * MOST, 100):
        store.write(Batch(points=points(1, range(first, min(first + 100, 8 * MOST)))))
    steps = [each.step for each in store.curves(1)]
    assert len(steps) <= 2 * MOST
    assert (steps[0], steps[-1]) == (0, 8 * MOST - 1)
    gaps = [after - before for before, after in pairwise(steps)]
    assert max(gaps) <= 32 * min(gaps[:10]), "no part of it is missing"


def test_curves_of_old_jobs_are_thinned_once(store: Store) -> None:
    store.write(arrivals([1, 2, 3]))
    live = record(3, status="running", submitted=5.0)
    store.write(Batch(records=(over(1, DAY), over(2, 99 * DAY), live), points=points(1, range(900))))
    store.write(Batch(points=(*points(2, range(900)), *points(3, range(900)))))
    while store.thin_curves(50 * DAY):
        pass
    counts = [len(store.curves(number)) for number in (1, 2, 3)]
    assert OLD // 2 <= counts[0] <= OLD + 1, "long over"
    assert counts[1:] == [900, 900], "over for a few days, and not over"
    assert store.thin_curves(50 * DAY) == 0, "none is looked at twice"


def test_the_timeline_is_what_overlaps_a_time_page_by_page(store: Store) -> None:
    store.write(replace(arrivals([1, 2, 3]), spans=(span(1, 0.0), span(2, 5.0, 8.0), span(3, 20.0))))
    store.write(Batch(spans=(span(1, 0.0, 10.0, code="c", reason="why"), span(1, 10.0))))

    def seen(since: float, until: float) -> list[tuple[int, float]]:
        return [(each.span.number, each.span.began) for each in store.timeline(since, until)]

    assert seen(0.0, 30.0) == [(1, 0.0), (2, 5.0), (1, 10.0), (3, 20.0)]
    assert seen(9.0, 15.0) == [(1, 0.0), (1, 10.0)]
    assert seen(8.0, 9.0) == [(1, 0.0)], "what has ended by then is not in it"
    first = store.timeline(0.0, 30.0, limit=2)
    assert (first[0].name, first[0].user, first[0].pool) == ("job-1", "ann", "default")
    assert first[0].span == span(1, 0.0, 10.0, code="c", reason="why")
    after = (first[-1].span.began, first[-1].span.number)
    rest = store.timeline(0.0, 30.0, after, 9)
    assert [(each.span.number, each.span.began) for each in rest] == [(1, 10.0), (3, 20.0)]
    assert [each.number for each in store.unended_spans()] == [1, 3]
    assert [each.began for each in store.spans(1, limit=9)] == [0.0, 10.0]
    assert [each.began for each in store.spans(1, limit=1)] == [10.0], "the last"


@pytest.fixture
def aged(store: Store) -> Iterator[Store]:
    """A store with two old jobs, a recent and a live one, and a sweep of the two old ones."""
    store.write(arrivals([2, 3, 4, 5]))
    sweep = SweepRecord(1, "lr", "ann", "default", "live", 2)
    old = over(2, 2 * DAY, labels={"a": "b"}), over(3, 3 * DAY)
    live = record(5, status="running", submitted=0.0)
    store.write(Batch(records=(*old, over(4, 90 * DAY), live), sweeps=(sweep,)))
    store.write(Batch(sweeps=(replace(sweep, number=6, name="later"),)))
    store.write(Batch(points=points(2, range(3)), spans=(span(2, 0.0, 1.0), span(4, 5.0, 6.0))))
    yield store


def test_jobs_that_are_long_over_are_forgotten_with_all_about_them(aged: Store) -> None:
    assert aged.drop_jobs(before=50 * DAY) == 2
    assert aged.drop_jobs(before=50 * DAY) == 0
    assert [each.number for each in aged.jobs()] == [5, 4]
    assert aged.key("ann", "key-2") is None and aged.key("ann", "key-4") is not None
    assert aged.curves(2) == [] and aged.spans(2, 9) == []
    assert len(aged.spans(4, 9)) == 1
    assert aged.sweep(1) is None and aged.sweep(6) is not None, "the last is where numbers go on"
    assert aged.highest() == 8


def test_the_newest_job_stays_so_that_no_number_is_given_twice(store: Store) -> None:
    store.write(arrivals([1, 2]))
    store.write(Batch(records=(over(1, DAY), over(2, DAY))))
    assert store.drop_jobs(before=99 * DAY) == 1
    assert store.highest() == 2
