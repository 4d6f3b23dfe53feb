"""Several jobs that are submitted together: from a file or a mapping with `jobs`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from muster.client.errors import ClientError
from muster.client.sending.job_record import file_mapping, placed

JOBS, NAME = "jobs", "name"
Body = dict[str, Any]


def read_pipeline(jobs: Mapping[str, Any] | str | Path) -> Body:
    """Return the jobs of a mapping or a file, whose paths count from its own folder."""
    if isinstance(jobs, Mapping):
        record = dict(jobs)
    else:
        path = Path(jobs)
        record = placed(file_mapping(path), path.parent)
        if isinstance(record.get(JOBS), Mapping):
            own = {name: placed(dict(each), path.parent) for name, each in record[JOBS].items()}
            record[JOBS] = own
    if not isinstance(record.get(JOBS), Mapping):
        hint = "submit one job with `submit`"
        raise ClientError(0, "No Jobs", "there is no mapping `jobs` of names to jobs", hint)
    return record


def completed(record: Body, complete: Callable[[Body], Body]) -> Body:
    """Return the request that submits them: each job with what all share, completed."""
    common = {field: value for field, value in record.items() if field not in (JOBS, NAME)}
    found = {name: complete({**common, **own}) for name, own in record[JOBS].items()}
    return {JOBS: found} | ({NAME: record[NAME]} if record.get(NAME) else {})
