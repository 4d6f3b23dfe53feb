"""The journal keeps the order, gives each fact to its job, and shrinks without losing its place."""

from dataclasses import fields, replace
from math import nan
from typing import Any, get_args

import pytest

from muster.model.event import Cancelled, Ended, NodeLost, Outcome, Started, Submitted
from muster.model.job import Role
from muster.model.sweep import Sweep, SweepSubmitted
from muster.model.task import (
    Fact,
    PolicySet,
    StopAsked,
    TaskEnded,
    TaskExited,
    TaskId,
    TaskOrdered,
    job_of,
)
from muster.store import store as store_module
from muster.store.batch import Batch, Journalled, Snapshot, SubmissionKey
from muster.store.database import Database
from muster.store.errors import StoreError, UnwritableError
from muster.store.store import Store, open_store
from muster.wire.api.records import PredictionRecord
from tests.builders import slot
from tests.unit.store.samples import arrivals, record, submission


def names(entries: list[Journalled]) -> list[tuple[int, str]]:
    return [(entry.seq, type(entry.fact).__name__) for entry in entries]


def test_facts_come_back_in_order_numbered_without_a_gap(store: Store) -> None:
    first = (submission(1), Started(1, 1, 2.0), NodeLost("n1", 3.0))
    second = (PolicySet("fifo", 4.0), Cancelled(1, 5.0))
    assert store.last_seq() == 0
    assert store.write(Batch(facts=first)) == (1, 3)
    assert store.write(Batch(facts=second)) == (4, 5)
    facts: tuple[Fact, ...] = (*first, *second)
    assert list(store.facts()) == [Journalled(i, fact) for i, fact in enumerate(facts, 1)]
    assert store.last_seq() == 5


def test_a_batch_without_facts_has_no_numbers(store: Store) -> None:
    assert store.write(Batch()) == (1, 0)
    store.write(Batch(facts=(NodeLost("n1", 1.0),)))
    assert store.write(Batch(records=(record(1),))) == (2, 1)


def test_facts_are_read_piece_by_piece(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "READ_AT_ONCE", 3)
    store.write(Batch(facts=tuple(NodeLost(f"n{i}", 0.0) for i in range(1, 10))))
    assert [entry.seq for entry in store.facts()] == list(range(1, 10))
    assert [entry.seq for entry in store.facts(after=4)] == [5, 6, 7, 8, 9]
    assert [entry.seq for entry in store.facts(after=2, limit=4)] == [3, 4, 5, 6]
    assert [entry.seq for entry in store.facts(limit=0)] == []
    assert list(store.facts(after=9)) == []


def test_facts_of_some_kinds_are_found_among_those_of_a_flood(store: Store) -> None:
    some = (submission(1), Started(1, 1, 2.0), NodeLost("n1", 3.0), Cancelled(1, 5.0), submission(2))
    store.write(Batch(facts=some))
    kinds = ("Started", "Cancelled")
    assert [each.seq for each in store.facts_of(kinds, 0, 5, 10)] == [2, 4]
    assert [each.seq for each in store.facts_of(kinds, 2, 5, 10)] == [4]
    assert [each.seq for each in store.facts_of(kinds, 0, 3, 10)] == [2]
    assert [each.seq for each in store.facts_of(kinds, 0, 5, 1)] == [2]


def test_what_is_written_outlives_the_store(url: str) -> None:
    before = open_store(url)
    before.write(arrivals((1, 2)))
    before.close()
    after = open_store(url)
    assert [entry.fact for entry in after.facts()] == [submission(1), submission(2)]
    assert after.write(Batch(facts=(NodeLost("n1", 1.0),))) == (3, 3)
    after.close()


def test_a_batch_that_contradicts_the_store_writes_nothing(store: Store) -> None:
    store.write(arrivals((1,)))
    changes = (record(2), record(1, status="running"))
    with pytest.raises(UnwritableError):
        store.write(Batch((submission(2),), changes, keys=(SubmissionKey("ann", "key-1", 2),)))
    assert (store.last_seq(), store.highest(), store.counts()) == (1, 1, {"waiting": 1})
    assert store.write(arrivals((2,))) == (2, 2)


@pytest.mark.parametrize(
    "bad",
    [
        Batch(records=(record(1), record(2, submitted=nan))),
        Batch(records=(record(2**70),)),
        Batch(keys=(SubmissionKey("ann", "\ud800", 1),)),
        Batch(predictions=((1, PredictionRecord(1.0, "start", nan)),)),
    ],
)
def test_a_batch_with_something_bad_in_it_writes_nothing(store: Store, bad: Batch) -> None:
    with pytest.raises(UnwritableError):
        store.write(replace(bad, facts=(submission(1),)))
    assert (store.last_seq(), store.counts()) == (0, {})
    assert store.write(arrivals((1,))) == (1, 1)


def test_who_reads_does_not_wait_for_who_writes(url: str) -> None:
    store = open_store(url)
    store.write(arrivals((1,)))
    other = Database(url)
    with other.writing() as connection:
        connection.exec_driver_sql("UPDATE jobs SET status = 'running'")
        assert store.counts() == {"waiting": 1}
        assert [entry.seq for entry in store.facts()] == [1]
    assert store.counts() == {"running": 1}
    other.close()
    store.close()


def test_the_latest_changes_come_oldest_first(store: Store) -> None:
    store.write(Batch(facts=tuple(NodeLost(f"n{i}", 0.0) for i in range(1, 7))))
    assert [entry.seq for entry in store.changes(None, limit=3)] == [4, 5, 6]
    assert [entry.seq for entry in store.changes(2, limit=3)] == [3, 4, 5]
    assert [entry.seq for entry in store.changes(0)] == [1, 2, 3, 4, 5, 6]
    assert store.changes(6) == []


def test_the_changes_of_a_job_come_with_its_name(store: Store) -> None:
    task = TaskId(1, 1, Role.WORKER, 0)
    store.write(arrivals((1, 2)))
    store.write(
        Batch(
            facts=(
                TaskOrdered(1, task, slot("n0", 1), 3.0),
                Started(2, 1, 4.0),
                NodeLost("n7", 5.0),
                TaskEnded(1, TaskExited(task, 6.0, code=0), 6.0),
            )
        )
    )
    of_first = [(1, "Submitted"), (3, "TaskOrdered"), (6, "TaskEnded")]
    assert names(store.changes(None, number=1)) == of_first
    named = [entry.name for entry in store.changes(None)]
    assert named == ["job-1", "job-2", "job-1", "job-2", None, "job-1"]
    assert names(store.changes(1, number=1, limit=1)) == [(3, "TaskOrdered")]
    assert names(store.changes(None, number=2)) == [(2, "Submitted"), (4, "Started")]
    assert store.changes(None, number=9) == []


def test_jobs_that_shared_a_name_are_told_apart(store: Store) -> None:
    """Also where one ends and the next begins in one batch, and a task of the first ends late."""
    store.write(Batch(facts=(submission(1, "train"),), records=(record(1, name="train"),)))
    store.write(
        Batch(
            facts=(
                Ended(1, 1, Outcome.SUCCEEDED, 2.0),
                submission(2, "train"),
                Started(2, 1, 3.0),
            ),
            records=(record(1, name="train", status="succeeded"), record(2, name="train")),
        )
    )
    late = TaskExited(TaskId(1, 1, Role.WORKER, 0), 4.0)
    store.write(Batch(facts=(StopAsked(2, 4.0), TaskEnded(1, late, 4.0))))
    assert [entry.seq for entry in store.changes(None, number=1)] == [1, 2, 6]
    assert [entry.seq for entry in store.changes(None, number=2)] == [3, 4, 5]
    assert {entry.name for entry in store.changes(None)} == {"train"}
    newest = store.named("ann", "train")
    assert newest is not None
    assert newest.number == 2


@pytest.mark.parametrize("kind", get_args(Fact))
def test_every_kind_of_fact_says_what_job_it_is_about(kind: Any) -> None:
    names = {field.name for field in fields(kind)}
    job = submission(1).job if kind is Submitted else 1
    sweep = Sweep(1, submission(1).job, ()) if kind is SweepSubmitted else 1
    about = {"sweep": sweep, "job": job}
    fact = kind(**{name: about.get(name) for name in names})
    assert job_of(fact) == (1 if names & about.keys() else None)


def test_two_snapshots_are_kept(store: Store) -> None:
    store.write(arrivals(range(1, 10)))
    assert store.latest() is None
    for seq in (2, 5, 9):
        store.snapshot(seq, b"state %d" % seq)
    store.snapshot(9, b"state 9 again")
    assert store.latest() == Snapshot(9, b"state 9 again")
    assert store.latest(before=9) == Snapshot(5, b"state 5")
    assert store.latest(before=5) is None


def test_a_snapshot_in_parts_counts_once_it_is_whole(store: Store) -> None:
    store.write(arrivals(range(1, 10)))
    store.snapshot(5, b"state 5")
    for part, body in enumerate((b"of ", b"nine ", b"parts")):
        store.snapshot_part(9, part, body)
    assert store.latest() == Snapshot(5, b"state 5")  # whoever died here left nothing half
    store.snapshot(9, b"two ", parts=2)
    assert store.latest() == Snapshot(9, b"two of nine ")
    store.snapshot(9, b"whole")
    assert store.latest() == Snapshot(9, b"whole")


def test_parts_go_with_their_snapshot(store: Store) -> None:
    store.write(arrivals(range(1, 10)))
    for seq in (3, 6, 8, 9):
        store.snapshot_part(seq, 0, b" part")
        store.snapshot(seq, b"%d" % seq, parts=1)
    assert store.latest(before=9) == Snapshot(8, b"8 part")
    with store._database.reading() as connection:
        rows = connection.exec_driver_sql("SELECT seq FROM snapshot_parts ORDER BY seq").all()
    assert [seq for (seq,) in rows] == [8, 9]


def test_a_snapshot_of_what_has_not_happened_is_refused(store: Store) -> None:
    store.write(arrivals((1, 2)))
    with pytest.raises(StoreError, match="fact 3"):
        store.snapshot(3, b"")
    assert store.latest() is None


def test_facts_far_behind_the_older_snapshot_are_removed(url: str) -> None:
    store = open_store(url, keep_events=2)
    store.write(arrivals(range(1, 10)))
    store.snapshot(8, b"8")
    assert len(list(store.facts())) == 9  # a single snapshot may turn out to be unreadable
    store.snapshot(9, b"9")
    assert [entry.seq for entry in store.facts()] == [7, 8, 9]
    store.close()
    again = open_store(url, keep_events=0)
    again.snapshot(9, b"9")
    assert [entry.seq for entry in again.facts()] == [9]
    assert again.write(Batch(facts=(NodeLost("n1", 1.0),))) == (10, 10)  # numbers are not used twice
    assert again.highest() == 9
    again.close()


def test_a_long_journal_shrinks_a_little_at_a_time(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.store.journal.PRUNED_AT_ONCE", 3)
    store = open_store(url, keep_events=0)
    store.write(arrivals(range(1, 10)))
    left = []
    for seq in (7, 8, 9):
        store.snapshot(seq, b"")
        left.append(next(store.facts()).seq)
    assert left == [1, 4, 7]
    store.close()
