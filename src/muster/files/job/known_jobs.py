"""Jobs of requests that repeat: a flood submits one job under many names, or a few in turn."""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.files.job.job_file import job_of
from muster.files.source.quantity import parse_name
from muster.model.job import Job
from muster.model.renew import renewer

KNOWN = 1_000
"""Requests that are remembered, without their names."""
LONGEST = 4_096
"""Bytes of a request that is: most have some hundred."""

NAME = "name"
_renewed = renewer(Job)


class KnownJobs:
    """Reads jobs as `job_of` does. Checking a request takes a third of a submission, and what it says
    depends on nothing but the request, whose name is checked by itself."""

    def __init__(self, known: int = KNOWN, longest: int = LONGEST) -> None:
        self._most, self._longest = known, longest
        self._jobs: dict[bytes, Job] = {}

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._jobs)

    def job_of(self, record: Mapping[str, Any]) -> Job:
        """Return the job of a JSON mapping; FaultsError has all faults."""
        name = record.get(NAME)
        if not isinstance(name, str):
            return job_of(record)
        rest = msgspec.json.encode({key: value for key, value in record.items() if key != NAME})
        known = self._jobs.get(rest)
        if known is not None:
            try:
                return _renewed(known, name=parse_name(name))
            except ValueError:
                pass  # told with all other faults
        job = job_of(record)
        if len(rest) <= self._longest:
            if len(self._jobs) >= self._most:
                self._jobs.clear()
            self._jobs[rest] = job
        return job
