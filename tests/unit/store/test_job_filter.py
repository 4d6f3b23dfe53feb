"""Jobs are found by label, pattern and time, from an index however many there are."""

from dataclasses import replace

import pytest

from muster.model.event import Submitted
from muster.model.job import Job
from muster.store.batch import Batch
from muster.store.job_filter import JobFilter
from muster.store.store import Store
from tests.unit.store.samples import record

NAMES = ("bert-a", "bert-b", "Bert-c", "gpt", "bert", "b_rt")


@pytest.fixture
def labelled(store: Store) -> Store:
    """Six jobs, ten seconds apart; every other is run x, the first is of a team."""
    jobs = []
    for number, name in enumerate(NAMES, 1):
        labels = {"run": "x" if number % 2 else "y"} | ({"team": "vision"} if number == 1 else {})
        jobs.append(Job(name, number=number, labels=tuple(sorted(labels.items()))))
    facts = tuple(Submitted(job, 10.0 * job.number) for job in jobs)
    rows = tuple(
        replace(
            record(job.number, name=job.name, status="running"),
            submitted=10.0 * job.number,
            labels=dict(job.labels),
        )
        for job in jobs
    )
    store.write(Batch(facts=facts, records=rows))
    return store


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (JobFilter(labels=(("run", "x"),)), [5, 3, 1]),
        (JobFilter(labels=(("run", "x"), ("team", None))), [1]),
        (JobFilter(labels=(("run", None),)), [6, 5, 4, 3, 2, 1]),
        (JobFilter(labels=(("run", "z"),)), []),
        (JobFilter(name="bert-?"), [2, 1]),
        (JobFilter(name="bert*"), [5, 2, 1]),
        (JobFilter(name="b_r*"), [6]),
        (JobFilter(name="*"), [6, 5, 4, 3, 2, 1]),
        (JobFilter(name="gpt"), [4]),
        (JobFilter(since=30.0), [6, 5, 4, 3]),
        (JobFilter(since=30.1), [6, 5, 4]),
        (JobFilter(until=30.0), [2, 1]),
        (JobFilter(since=20.0, until=50.0), [4, 3, 2]),
        (JobFilter(since=1000.0), []),
        (JobFilter(until=1.0), []),
    ],
)
def test_jobs_are_found_by_label_pattern_and_time(
    labelled: Store, wanted: JobFilter, numbers: list[int]
) -> None:
    assert [job.number for job in labelled.filtered(wanted)] == numbers
    assert sum(labelled.counts(wanted).values()) == len(numbers)


def test_a_filter_keeps_to_what_its_caller_may_see(labelled: Store) -> None:
    stranger = JobFilter(labels=(("run", "x"),), users_or_pools=("dan", ()))
    assert labelled.filtered(stranger) == []
    assert labelled.counts(stranger) == {}


def test_jobs_are_found_by_their_time_whatever_their_numbers(store: Store) -> None:
    """A member of a sweep has its number before it is submitted."""
    times = {3: 10.0, 40: 900.0, 41: 20.0, 900: 30.0}
    store.write(Batch(records=tuple(replace(record(n), submitted=at) for n, at in times.items())))
    assert [job.number for job in store.filtered(JobFilter(since=25.0))] == [900, 40]
    assert [job.number for job in store.filtered(JobFilter(until=25.0))] == [41, 3]
