"""Requests that repeat are read as if each were the first."""

from typing import Any

import pytest

from muster.files.job.job_file import job_of
from muster.files.job.known_jobs import KnownJobs
from muster.files.source.faults import FaultsError

JOB: dict[str, Any] = {"name": "a", "command": ["sleep", "60"], "roles": {"worker": {"count": 4}}}


@pytest.mark.parametrize(
    "record",
    [
        JOB,
        {**JOB, "name": "b"},
        {**JOB, "name": "b", "priority": 3},
        {**JOB, "name": "b", "priority": "3"},
        {**JOB, "name": "b", "preemptible": True},
        {**JOB, "name": 7},
        {"command": "python train.py"},
    ],
)
def test_a_job_is_the_same_however_often_it_was_asked_for(record: dict[str, Any]) -> None:
    known = KnownJobs()
    known.job_of(JOB)
    assert [known.job_of(record) for _ in range(2)] == [job_of(record)] * 2


@pytest.mark.parametrize(
    "record", [{**JOB, "name": "no name"}, {**JOB, "name": ""}, {**JOB, "name": "x", "comand": "ls"}]
)
def test_faults_are_the_same(record: dict[str, Any]) -> None:
    known = KnownJobs()
    known.job_of(JOB)
    with pytest.raises(FaultsError) as first:
        job_of(record)
    for _ in range(2):
        with pytest.raises(FaultsError) as again:
            known.job_of(record)
        assert again.value.faults == first.value.faults


def test_no_more_is_kept_than_was_said() -> None:
    known = KnownJobs(known=2, longest=200)
    for priority in range(5):
        known.job_of({**JOB, "priority": priority})
    known.job_of({**JOB, "env": {"LONG": "x" * 500}})
    assert len(known) <= 2
