"""Jobs as Slurm numbers them: `12`, and `12_3` for the member 3 of the array 12, which is a sweep."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from muster.client.errors import ClientError
from muster.wire.api.records import JobRecord
from muster.wire.api.sweep_records import MemberRecord, SweepDetail

if TYPE_CHECKING:
    from muster.client import Client


def job_id(job: JobRecord) -> str:
    """`12`, or `12_3` for a member of an array."""
    return f"{job.sweep}_{job.name.rpartition('.')[2]}" if job.sweep else str(job.number)


def named_jobs(client: "Client", ids: Sequence[str]) -> Iterator[JobRecord]:
    """Yield the jobs of these numbers; of an array's, all its members."""
    for each in ids:
        array, member, index = each.partition("_")
        if member:
            yield from _members(client, client.sweep_detail(array), index)
            continue
        try:
            yield client.record(each)
        except ClientError as error:
            found = array_of(client, each) if error.status == 404 else None
            if found is None:
                raise
            yield from _members(client, found)


def array_of(client: "Client", number: str) -> SweepDetail | None:
    """Return the array of a number, None if there is none."""
    try:
        return client.sweep_detail(number)
    except ClientError as error:
        if error.status != 404:
            raise
        return None


def _members(client: "Client", array: SweepDetail, index: str | None = None) -> Iterator[JobRecord]:
    """Yield the jobs of an array, or of its member of this index."""
    chosen = [each for each in array.members if index is None or each.index == index]
    if not chosen:
        raise ClientError(404, "Not Found", f"array {array.sweep.number} has no member {index}")
    for each in chosen:
        known = each.number is not None and each.status != _TO_COME
        yield client.record(each.number) if known and each.number else _to_come(array, each)


_TO_COME = "to come"
"""What a member is that has no job yet."""


def _to_come(array: SweepDetail, member: MemberRecord) -> JobRecord:
    sweep = array.sweep
    name = f"{sweep.name}.{member.index}"
    own = (member.number or sweep.number, name, sweep.user, sweep.pool, "waiting")
    return JobRecord(*own, submitted=sweep.submitted, sweep=sweep.number)


def split_ids(given: Sequence[str]) -> list[str]:
    """`1,2` and `3` as three; a step (`12.batch`) is its job."""
    return [each.partition(".")[0] for text in given for each in text.split(",") if each]
