"""A job that runs or has run: what it has reported, and which devices it holds."""

from dataclasses import dataclass, field

import msgspec

from muster.daemon.learn.convergence import LossState, LossWatch
from muster.daemon.learn.notes import PROGRESS, Kin
from muster.daemon.learn.progress import Track, TrackState
from muster.daemon.learn.window import Window
from muster.model.job import Job
from muster.perf.learnt.changes import ChangeKind
from muster.perf.learnt.held import Held
from muster.store.batch import Note


class LiveState(msgspec.Struct, frozen=True):
    """What the next daemon must know about a job."""

    number: int
    track: TrackState
    held: tuple[str, tuple[int, ...], int | None] | None
    since: float
    spent: float
    loss: LossState = LossState()


@dataclass(slots=True)
class LiveJob:
    """One job, as beliefs follow it."""

    job: Job
    track: Track = field(default_factory=Track)
    held: Held | None = None
    since: float = 0.0
    """When it got the devices it holds."""
    spent: float = 0.0
    """Estimated s on one device that it had run by then, for a job that reports no steps."""
    window: Window | None = None
    starting: float | None = None
    """When its tasks were ordered, until their first step; None: they are past it."""
    told: tuple[tuple[object, ...], Kin, Job] | None = None
    """What the rest depends on, and the job as the learner knows it."""
    watch: LossWatch = field(default_factory=LossWatch)

    def start_so_far(self, now: float) -> float:
        """Return the s that a start has taken before its first step: it costs no less than that."""
        trains = self.held is not None and bool(self.track.members)
        return max(0.0, now - self.starting) if trains and self.starting is not None else 0.0

    def took(self, formation: int, now: float) -> tuple[ChangeKind, float] | None:
        """Return what led to the formation whose first step is reported now, and its s without
        progress; None: a loss, or unknown."""
        if self.starting is not None:
            began, self.starting = self.starting, None
            return ChangeKind.START, max(0.0, now - began)
        pause = self.track.planned_pause(formation)
        return None if pause is None else (ChangeKind.RESIZE, pause)

    def state(self) -> LiveState:
        """Return what survives a restart; a measurement in progress does not."""
        held = None
        if self.held is not None:
            held = self.held.device_type, self.held.shape, self.held.batch
        shown = self.track.state(), held, self.since, self.spent, self.watch.state()
        return LiveState(self.job.number, *shown)

    @staticmethod
    def restored(job: Job, state: LiveState) -> "LiveJob":
        """Return the job as it was stored."""
        held = Held(*state.held) if state.held is not None else None
        track, watch = Track.restored(state.track), LossWatch.restored(state.loss)
        return LiveJob(job, track, held, state.since, state.spent, watch=watch)


_STATE = msgspec.json.Decoder(LiveState)


def note_of_state(live: LiveJob, at: float) -> Note:
    """Return the note that stores a job's progress."""
    return Note(PROGRESS, str(live.job.number), at, msgspec.json.encode(live.state()))


def note_of_end(number: int, at: float) -> Note:
    """Return the note that voids a job's progress: it has ended."""
    return Note(PROGRESS, str(number), at, b"")


def state_of(note: Note) -> LiveState | None:
    """Return the progress that a note stores; None if it is void or invalid."""
    try:
        return _STATE.decode(note.body)
    except msgspec.DecodeError:
        return None
