"""What was learnt, as small readable notes in the store; invalid ones are ignored."""

import msgspec

from muster.perf.estimate import BadMeasurementError
from muster.perf.history.links import Carried
from muster.perf.wires import LinkClass, Wire
from muster.store.batch import Note

SHOWN, CARRIED, PROGRESS, SHAPE = "shown", "carried", "progress", "shape"
"""Kinds of notes: measured steps and ends by application, transfers by class of link, progress by job
number, captured models by fingerprint."""
KINDS = (SHOWN, CARRIED, PROGRESS, SHAPE)


class Kin(msgspec.Struct, frozen=True):
    """Which jobs are alike, so that one says something about the others."""

    application: str
    """Their name in the learner."""
    family: str
    """Their user, with the script or the application that they name; models of one script share it."""
    shape: str = ""
    batch: int | None = None
    """Samples of a step over all workers."""
    reports: bool = True
    """Whether they report steps."""
    largest: int = 0
    """Samples to which a step may grow; 0: the batch is fixed."""


class StepNote(msgspec.Struct, frozen=True, tag="step"):
    """A measured step."""

    kin: Kin
    device_type: str
    workers: tuple[int, ...]
    """On each node."""
    step: float
    """s of a step."""
    sync: float
    """s of that for synchronising."""
    done: float
    """Steps that the job had done."""
    told_batch: int | None = None
    """The batch that it was given."""
    noise: float | None = None
    """The gradient's noise scale in samples, if its batch is free."""


class EndNote(msgspec.Struct, frozen=True, tag="end"):
    """A job that has completed, with all its work."""

    kin: Kin
    work: float


class _Transfer(msgspec.Struct, frozen=True):
    wire: str
    configuration: str
    bytes: float
    seconds: float


_SHOWN = msgspec.json.Decoder(StepNote | EndNote)
_CARRIED = msgspec.json.Decoder(_Transfer)


def note_of(shown: StepNote | EndNote, at: float) -> Note:
    """Return the note that stores a step or an end."""
    return Note(SHOWN, shown.kin.application, at, msgspec.json.encode(shown))


def note_of_transfer(carried: Carried) -> Note:
    """Return the note that stores a transfer."""
    wire, configuration = carried.link
    body = _Transfer(wire.value, configuration, carried.bytes, carried.seconds)
    return Note(CARRIED, f"{wire.value} {configuration}", carried.at, msgspec.json.encode(body))


def shown_of(note: Note) -> StepNote | EndNote | None:
    """Return the step or end that a note stores; None if there is none or it is invalid."""
    if note.kind != SHOWN:
        return None
    try:
        shown = _SHOWN.decode(note.body)
    except msgspec.DecodeError:
        return None
    if isinstance(shown, EndNote):
        return shown if shown.work > 0 else None
    fine = shown.step > 0 and 0 <= shown.sync <= shown.step and sum(shown.workers) > 0
    return shown if fine and min(shown.workers) > 0 else None


def carried_of(note: Note) -> Carried | None:
    """Return the transfer that a note stores; None if there is none or it is invalid."""
    if note.kind != CARRIED:
        return None
    try:
        body = _CARRIED.decode(note.body)
        link = LinkClass(Wire(body.wire), body.configuration)
        return Carried(link, body.bytes, body.seconds, note.at)
    except (msgspec.DecodeError, BadMeasurementError, ValueError):
        return None
