"""What was learnt, as small readable notes in the store; invalid ones are ignored."""

import msgspec

from muster.model.slowdowns import Common
from muster.perf.estimate import BadMeasurementError
from muster.perf.history.hops import HopSeen
from muster.perf.history.links import Carried
from muster.perf.history.neighbours import Encounter, Rival
from muster.perf.learnt.changes import ChangeKind
from muster.perf.wires import LinkClass, Wire
from muster.store.batch import Note

SHOWN, CARRIED, PROGRESS, SHAPE, MET = "shown", "carried", "progress", "shape", "met"
HOP = "hop"
"""Kinds of notes: measured steps and ends by application, transfers by class of link, progress by job
number, captured models by fingerprint, steps beside neighbours by setting, rates between two nodes."""
KINDS = (SHOWN, CARRIED, PROGRESS, SHAPE, MET, HOP)


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
    slowed: float = 1.0
    """The factor by which neighbours were known to slow it."""
    noise: float | None = None
    """The gradient's noise scale in samples, if its batch is free."""
    beside: tuple[tuple[str, int], ...] = ()
    """Of the workers, those on devices of other types."""


class EndNote(msgspec.Struct, frozen=True, tag="end"):
    """A job that has completed, with all its work."""

    kin: Kin
    work: float
    user: str = ""
    part: float | None = None
    """Of the duration that its user declared, what it took; None: nobody declared one."""


class ChangeNote(msgspec.Struct, frozen=True, tag="change"):
    """What a change of a job's tasks has cost."""

    kin: Kin
    change: ChangeKind
    seconds: float


class _Transfer(msgspec.Struct, frozen=True):
    wire: str
    configuration: str
    bytes: float
    seconds: float


class _Met(msgspec.Struct, frozen=True):
    kind: str
    step: float
    common: str = ""
    """Empty: alone."""
    other: str = ""


class _Hop(msgspec.Struct, frozen=True):
    source: str
    target: str
    rate: float
    shared: bool = False


Shown = StepNote | EndNote | ChangeNote

_SHOWN = msgspec.json.Decoder(Shown)
_CARRIED = msgspec.json.Decoder(_Transfer)
_MET = msgspec.json.Decoder(_Met)
_HOP = msgspec.json.Decoder(_Hop)


def note_of(shown: Shown, at: float) -> Note:
    """Return the note that stores a step, an end or a change."""
    return Note(SHOWN, shown.kin.application, at, msgspec.json.encode(shown))


def note_of_transfer(carried: Carried | HopSeen) -> Note:
    """Return the note that stores a transfer."""
    if isinstance(carried, HopSeen):
        hop = _Hop(carried.source, carried.target, carried.rate, carried.shared)
        return Note(HOP, f"{hop.source} {hop.target}", carried.at, msgspec.json.encode(hop))
    wire, configuration = carried.link
    body = _Transfer(wire.value, configuration, carried.bytes, carried.seconds)
    return Note(CARRIED, f"{wire.value} {configuration}", carried.at, msgspec.json.encode(body))


def shown_of(note: Note) -> Shown | None:
    """Return what a note stores of a job; None if there is nothing or it is invalid."""
    if note.kind != SHOWN:
        return None
    try:
        shown = _SHOWN.decode(note.body)
    except msgspec.DecodeError:
        return None
    if isinstance(shown, EndNote):
        return shown if shown.work > 0 and (shown.part is None or shown.part > 0) else None
    if isinstance(shown, ChangeNote):
        return shown if shown.seconds >= 0 else None
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


def note_of_met(met: Encounter) -> Note:
    """Return the note that stores a step beside a neighbour, or alone."""
    common, other = (met.beside.common.value, met.beside.kind) if met.beside else ("", "")
    body = _Met(met.kind, met.step, common, other)
    return Note(MET, met.setting, met.at, msgspec.json.encode(body))


def met_of(note: Note) -> Encounter | None:
    """Return the step beside a neighbour that a note stores; None if there is none or it is invalid."""
    if note.kind != MET:
        return None
    try:
        body = _MET.decode(note.body)
        beside = Rival(Common(body.common), body.other) if body.common else None
    except (msgspec.DecodeError, ValueError):
        return None
    return Encounter(note.key, body.kind, beside, body.step, note.at) if body.step > 0 else None


def hop_of(note: Note) -> HopSeen | None:
    """Return the hop that a note stores; None if there is none or it is invalid."""
    if note.kind != HOP:
        return None
    try:
        body = _HOP.decode(note.body)
    except msgspec.DecodeError:
        return None
    hop = HopSeen(body.source, body.target, body.rate, note.at, body.shared)
    return hop if hop.rate > 0 else None
