"""What was learnt, as notes in the store: small, readable, and passed over where they make no sense."""

import msgspec

from muster.perf.estimate import BadMeasurementError
from muster.perf.history.links import Carried
from muster.perf.wires import LinkClass, Wire
from muster.store.batch import Note

SHOWN, CARRIED, PROGRESS = "shown", "carried", "progress"
"""Kinds of notes: what jobs have shown (by application), what links have carried (by class), how far
jobs are (by number)."""
KINDS = (SHOWN, CARRIED, PROGRESS)


class Kin(msgspec.Struct, frozen=True):
    """Which jobs a note tells of."""

    application: str
    """As the learner calls it."""
    family: str
    """Its script or what its user named, before models of one script are told apart."""
    shape: str = ""
    batch: int | None = None
    """Samples of a step over all workers."""
    reports: bool = True
    """Whether its jobs report their steps."""


class Showing(msgspec.Struct, frozen=True, tag="step"):
    """A measured step: s, s of it synchronising, on so many workers of each node."""

    kin: Kin
    device_type: str
    workers: tuple[int, ...]
    step: float
    sync: float
    done: float
    """Steps that the job had done."""
    told_batch: int | None = None
    """The batch that it was told to use."""


class Ending(msgspec.Struct, frozen=True, tag="end"):
    """A job has come to its end after so much work."""

    kin: Kin
    work: float


class _Transfer(msgspec.Struct, frozen=True):
    wire: str
    configuration: str
    bytes: float
    seconds: float


_SHOWN = msgspec.json.Decoder(Showing | Ending)
_CARRIED = msgspec.json.Decoder(_Transfer)


def note_of(shown: Showing | Ending, at: float) -> Note:
    """As the store keeps it."""
    return Note(SHOWN, shown.kin.application, at, msgspec.json.encode(shown))


def note_of_transfer(carried: Carried) -> Note:
    """As the store keeps it."""
    wire, configuration = carried.link
    body = _Transfer(wire.value, configuration, carried.bytes, carried.seconds)
    return Note(CARRIED, f"{wire.value} {configuration}", carried.at, msgspec.json.encode(body))


def shown_of(note: Note) -> Showing | Ending | None:
    """What a note says of jobs; None: nothing that can be."""
    if note.kind != SHOWN:
        return None
    try:
        shown = _SHOWN.decode(note.body)
    except msgspec.DecodeError:
        return None
    if isinstance(shown, Ending):
        return shown if shown.work > 0 else None
    fine = shown.step > 0 and 0 <= shown.sync <= shown.step and sum(shown.workers) > 0
    return shown if fine and min(shown.workers) > 0 else None


def carried_of(note: Note) -> Carried | None:
    """What a note says of links; None: nothing that can be."""
    if note.kind != CARRIED:
        return None
    try:
        body = _CARRIED.decode(note.body)
        link = LinkClass(Wire(body.wire), body.configuration)
        return Carried(link, body.bytes, body.seconds, note.at)
    except (msgspec.DecodeError, BadMeasurementError, ValueError):
        return None
