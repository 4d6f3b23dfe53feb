"""What a user names: a job, or a sweep."""

from typing import TYPE_CHECKING

from muster.client.errors import ClientError
from muster.wire.api.records import OVER, JobRecord

if TYPE_CHECKING:
    from muster.client import Client, Handle
    from muster.client.handles.sweep_handle import SweepHandle

_NOT_FOUND = 404


def handle_named(client: "Client", which: str) -> "Handle | SweepHandle":
    """Return the job or sweep of a number or name; where both have the name, the live or newer one."""
    try:
        job = client.handle(which)
    except ClientError as error:
        sweep = sweep_named(client, which) if error.status == _NOT_FOUND else None
        if sweep is None:
            raise
        return sweep
    if which.isdigit() or job.record().status not in OVER:
        return job
    sweep = sweep_named(client, which)
    return sweep if sweep is not None and sweep.number > job.number else job


def sweep_named(client: "Client", which: str) -> "SweepHandle | None":
    """Return the sweep of a number or name; None: there is none."""
    try:
        return client.sweep_handle(which)
    except ClientError as error:
        if error.status != _NOT_FOUND:
            raise
        return None


def members_of(client: "Client", sweep: "SweepHandle") -> list[JobRecord]:
    """Return the jobs of a sweep that there are."""
    named = client.jobs(name=f"{sweep.name}.*", user=sweep.record().user, page=1000)
    return [job for job in named if job.sweep == sweep.number]
