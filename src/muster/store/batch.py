"""What is written to the store at once, and what is read from it."""

from dataclasses import dataclass

from muster.model.task import Fact
from muster.wire.records import ActRecord, JobRecord, PredictionRecord


@dataclass(frozen=True, slots=True)
class Note:
    """A record outside the journal, such as a measurement."""

    kind: str
    key: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class SubmissionKey:
    """A caller's idempotency key, and what was submitted with it."""

    user: str
    """Who chose the key: the caller, not the user that the job is for."""
    key: str
    number: int
    digest: str = ""
    """Of the job as sent; empty: unknown, submitted before it was kept."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One transaction: stored as a whole or not at all."""

    facts: tuple[Fact, ...] = ()
    """In order."""
    records: tuple[JobRecord, ...] = ()
    """Each replaces the record of its number."""
    keys: tuple[SubmissionKey, ...] = ()
    predictions: tuple[tuple[int, PredictionRecord], ...] = ()
    """Job number and prediction; each replaces that of the same job, kind and moment."""
    notes: tuple[Note, ...] = ()
    acts: tuple[ActRecord, ...] = ()
    """For the audit log."""


@dataclass(frozen=True, slots=True)
class Journalled:
    """A fact and its number in the journal."""

    seq: int
    fact: Fact
    name: str | None = None
    """Of its job, if requested."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fold of the journal up to and including `seq`, encoded by the daemon."""

    seq: int
    body: bytes
