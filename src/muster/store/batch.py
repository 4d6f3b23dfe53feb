"""What goes into the store at once, and what comes out of it."""

from dataclasses import dataclass

from muster.model.task import Fact
from muster.wire.records import JobRecord, PredictionRecord


@dataclass(frozen=True, slots=True)
class Note:
    """Something to be remembered that is no fact of the journal, such as a measurement."""

    kind: str
    key: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class Batch:
    """One transaction: all of it is stored, or nothing."""

    facts: tuple[Fact, ...] = ()
    """In the order in which they happened."""
    records: tuple[JobRecord, ...] = ()
    """Each replaces the record of its number."""
    keys: tuple[tuple[str, str, int], ...] = ()
    """User, the key they gave with a submission, and the number of the job it became."""
    predictions: tuple[tuple[int, PredictionRecord], ...] = ()
    """Job's number and prediction; each replaces that of the same job, kind and moment."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Journalled:
    """A fact, and its place in the journal."""

    seq: int
    fact: Fact
    name: str | None = None
    """Of the job it is about, where that was asked for."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fold of the journal up to and with `seq`, in a form of the daemon's."""

    seq: int
    body: bytes
