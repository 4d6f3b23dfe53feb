"""A job that runs or has run: what it was heard to say, and what it holds."""

from dataclasses import dataclass, field

import msgspec

from muster.daemon.learn.notes import PROGRESS, Kin
from muster.daemon.learn.progress import Track, TrackState
from muster.daemon.learn.window import Window
from muster.model.job import Job
from muster.perf.learnt.learner import Held
from muster.store.batch import Note


class LiveState(msgspec.Struct, frozen=True):
    """What the next daemon must know of a job."""

    number: int
    track: TrackState
    held: tuple[str, tuple[int, ...], int | None] | None
    since: float
    spent: float


@dataclass(slots=True)
class Live:
    """One job."""

    job: Job
    track: Track = field(default_factory=Track)
    held: Held | None = None
    since: float = 0.0
    """When it got what it holds."""
    spent: float = 0.0
    """Seconds on one device that it had run by then, as believed: of a job that reports no steps."""
    window: Window | None = None
    told: tuple[tuple[object, ...], Kin, Job] | None = None
    """The job as the learner knows it, and what that depends on."""

    def state(self) -> LiveState:
        """What outlives the daemon; what is being measured does not."""
        held = None
        if self.held is not None:
            held = self.held.device_type, self.held.shape, self.held.batch
        number, track = self.job.number, self.track.state()
        return LiveState(number, track, held, self.since, self.spent)

    @staticmethod
    def restored(job: Job, state: LiveState) -> "Live":
        """The same again."""
        held = Held(*state.held) if state.held is not None else None
        track = Track.restored(state.track)
        return Live(job, track, held, state.since, state.spent)


_STATE = msgspec.json.Decoder(LiveState)


def note_of_state(live: Live, at: float) -> Note:
    """As the store keeps it."""
    return Note(PROGRESS, str(live.job.number), at, msgspec.json.encode(live.state()))


def note_of_end(number: int, at: float) -> Note:
    """The job is over: there is nothing to go on with."""
    return Note(PROGRESS, str(number), at, b"")


def state_of(note: Note) -> LiveState | None:
    """How far a note says that a job is; None: it is over, or it says nothing that can be."""
    try:
        return _STATE.decode(note.body)
    except msgspec.DecodeError:
        return None
