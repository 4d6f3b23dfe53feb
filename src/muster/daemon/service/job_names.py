"""Names of jobs and keys of submissions, as callers write them."""

import hashlib
import re
from dataclasses import replace

from muster.daemon.service.protocol import RefusedError
from muster.model.job import Job
from muster.store.codec import encode

_LETTER = re.compile(r"[A-Za-z]")


def number_in(which: str) -> int | None:
    """Return the number that digits are, whatever jobs are called; None: it is a name."""
    return int(which) if which.isascii() and which.isdigit() and len(which) < 19 else None


def refuse_numeric(name: str) -> None:
    """Refuse a name that reads as a number: it would hide the job of that number."""
    if name and not _LETTER.search(name):
        raise RefusedError(f"{name!r} is not a name for a job: it needs a letter, as in job-{name}")


def digest_of(job: Job) -> str:
    """Return a hash of a job as submitted: a repeated key must come with the same one."""
    return hashlib.sha256(encode(replace(job, number=0))).hexdigest()
