"""Facts and records to store."""

from collections.abc import Iterable
from typing import Any

from muster.model.event import Submitted
from muster.store.batch import Batch, SubmissionKey
from muster.wire.api.records import JobRecord
from tests.builders import job


def record(number: int, **fields: Any) -> JobRecord:
    """A job as a list shows it, named after its number unless given."""
    known = {"name": f"job-{number}", "user": "ann", "pool": "default", "status": "waiting"}
    return JobRecord(number=number, **{**known, **fields})


def submission(number: int, name: str | None = None) -> Submitted:
    """A job of this number, handed over in the second of its number."""
    return Submitted(job(name or f"job-{number}", 2, most=4, number=number), float(number))


def arrivals(numbers: Iterable[int]) -> Batch:
    """Jobs that were just submitted, each with its record and its key."""
    numbers = tuple(numbers)
    return Batch(
        facts=tuple(submission(number) for number in numbers),
        records=tuple(record(number) for number in numbers),
        keys=tuple(SubmissionKey("ann", f"key-{number}", number) for number in numbers),
    )
