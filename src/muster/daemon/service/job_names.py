"""Names of jobs and keys of submissions, as callers write them."""

import hashlib
import re
from dataclasses import replace

from muster.daemon.service.protocol import RefusedError
from muster.model.job import Job, Origin
from muster.model.sweep import Sweep
from muster.store.codec import encode

_LETTER = re.compile(r"[A-Za-z]")


def number_in(which: str) -> int | None:
    """Return the number that digits are, whatever jobs are called; None: it is a name."""
    return int(which) if which.isascii() and which.isdigit() and len(which) < 19 else None


def refuse_numeric(name: str) -> None:
    """Refuse a name that reads as a number: it would hide the job of that number."""
    if name and not _LETTER.search(name):
        raise RefusedError(f"{name!r} is not a name for a job: it needs a letter, as in job-{name}")


def sweep_digest(sweep: Sweep) -> str:
    """Return a hash of a sweep as submitted."""
    rest = encode(replace(sweep, template=Job("")))
    return hashlib.sha256(rest + digest_of(sweep.template).encode()).hexdigest()


def digest_of(*jobs: Job) -> str:
    """Return a hash of jobs as submitted: a repeated key must come with the same, from whatever shell
    or machine."""
    found = hashlib.sha256()
    for job in jobs:
        program = replace(job.program, origin=Origin())
        found.update(encode(replace(job, number=0, program=program)))
    return found.hexdigest()
