"""How many jobs have ended is counted once, until that changes."""

from muster.store.batch import Batch
from muster.store.job_filter import JobFilter
from muster.store.store import Store
from muster.wire.api.records import OVER
from tests.unit.store.samples import record

ALL, ANNS = JobFilter(), JobFilter(users_or_pools=("ann", ()))


def count(store: Store, wanted: JobFilter) -> dict[str, int]:
    """Count the ended jobs, as a list does."""
    return store.grouped(wanted, [], counted=OVER)[1]


def test_counts_are_kept_for_each_reader_until_another_job_ends(store: Store) -> None:
    assert store.claim()
    store.write(Batch(records=(record(1, status="failed"), record(2, user="bob", status="failed"))))
    assert (count(store, ALL), count(store, ANNS)) == ({"failed": 2}, {"failed": 1})
    store.write(Batch(records=(record(3), record(4, status="running"))))
    assert (store.ended_counts(ALL), store.ended_counts(ANNS)) == ({"failed": 2}, {"failed": 1})
    store.write(Batch(records=(record(3, status="cancelled"),)))
    assert store.ended_counts(ALL) is None
    assert count(store, ALL) == {"failed": 2, "cancelled": 1}


def test_counts_do_not_outlive_the_jobs_that_are_removed(store: Store) -> None:
    assert store.claim()
    ended = tuple(record(number, status="failed", ended=5.0) for number in (1, 2))
    store.write(Batch(records=ended))
    assert count(store, ALL) == {"failed": 2}
    assert store.drop_jobs(before=10.0) == 1  # numbers go on from the last one
    assert store.ended_counts(ALL) is None
    assert count(store, ALL) == {"failed": 1}


def test_who_does_not_hold_the_claim_keeps_no_counts(store: Store) -> None:
    store.write(Batch(records=(record(1, status="failed"),)))
    assert count(store, ALL) == {"failed": 1}
    assert store.ended_counts(ALL) is None  # the daemon that holds it may have written since
