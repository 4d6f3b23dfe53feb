"""From the facts about a job to the lines of its story.

A decision and what it begins are one line; reasons for waiting are gathered until the wait is over.
What only carries out a decision (tasks ordered and ended, checkpoints) is left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.core.why.words import where
from muster.daemon.service.reading.event_text import text_of
from muster.model import event as e
from muster.model import task as t
from muster.model.decision import Kind
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.sweep import MemberSubmitted
from muster.model.task import Fact
from muster.wire.api.story_records import StoryLine

SHORTEST = 1.0
"""s of waiting that are worth a line."""

_PLACED = (e.StartBegun, e.ResizeBegun, e.MigrateBegun)
_BACK = (e.Preempted, e.Requeued)
_LOST = (e.TasksLost, t.RunBroken)
_ASKED = (
    e.JobHeld,
    e.JobReleased,
    e.Reprioritised,
    e.Reshaped,
    e.EndingChanged,
    t.StopAsked,
    t.RequeueAsked,
)
_ENDS = (e.Ended, e.Cancelled, e.Skipped)


@dataclass(slots=True)
class _Wait:
    """A time without devices, and what was said meanwhile."""

    since: float
    reasons: list[t.Decided] = field(default_factory=list)

    def line(self, until: float) -> StoryLine | None:
        """Return it as a line, with what kept the job longest; None: it was too short."""
        seconds = until - self.since
        if seconds < SHORTEST:
            return None
        if not self.reasons:
            return StoryLine(self.since, "waited", "", seconds)
        ends = [each.at for each in self.reasons[1:]] + [until]
        lasted = [end - each.at for each, end in zip(self.reasons, ends, strict=True)]
        longest = self.reasons[lasted.index(max(lasted))]
        others = dict.fromkeys(each.code for each in self.reasons)
        del others[longest.code]
        also = f" (also {', '.join(others)})" if others else ""
        return StoryLine(self.since, "waited", f"{longest.text}{also}", seconds, longest.code)


class StoryTeller:
    """Folds the facts about one job into lines."""

    def __init__(self) -> None:
        self.lines: list[StoryLine] = []
        self.begun = False
        """Whether its submission was among the facts."""
        self._wait: _Wait | None = None
        self._next: Placement | None = None
        self._workers = 0
        self._ran = 0.0
        self._since: float | None = None

    def tell(self, facts: Iterable[Fact]) -> None:
        """Take in facts, oldest first."""
        for fact in facts:
            self._take(fact)

    def waiting(self, now: float) -> None:
        """Add the wait that is not over; what keeps the job is told with its state."""
        if self._wait is not None:
            self.lines.append(StoryLine(self._wait.since, "waits", "", now - self._wait.since))

    def _take(self, fact: Fact) -> None:
        if isinstance(fact, e.Submitted | MemberSubmitted):
            self.begun, self._wait = True, _Wait(fact.at)
            self._add(fact.at, "submitted", text_of(fact))
        elif isinstance(fact, t.Decided):
            self._decided(fact)
        elif isinstance(fact, _PLACED):
            self._next = fact.placement
        elif isinstance(fact, e.Started):
            self._since = fact.at
        elif isinstance(fact, _BACK):
            self._stopped(fact.at)
            self._wait, self._workers = _Wait(fact.at), 0
        elif isinstance(fact, _LOST):
            self._add(fact.at, "lost", text_of(fact))
        elif isinstance(fact, _ASKED):
            self._add(fact.at, "asked", text_of(fact))
        elif isinstance(fact, _ENDS):
            self._end_wait(fact.at)
            self._stopped(fact.at)
            self._ended(fact.at, text_of(fact))

    def _ended(self, at: float, text: str) -> None:
        """Tell its end; not again how its run broke, if that is what ended it."""
        if self.lines and self.lines[-1].what == "lost" and text.endswith(f": {self.lines[-1].text}"):
            del self.lines[-1]
        self.lines.append(StoryLine(at, "ended", text, self._ran or None))

    def _decided(self, fact: t.Decided) -> None:
        if fact.kind == Kind.WAIT:
            if self._wait is not None:
                self._wait.reasons.append(fact)
            return
        if fact.kind == Kind.START:
            self._end_wait(fact.at)
        before, placed = self._workers, self._next
        workers = placed.count(Role.WORKER) if placed is not None else 0
        self._workers, self._next = workers, None
        what = _verb(fact.kind, before, workers)
        self.lines.append(
            StoryLine(
                fact.at,
                what,
                _told(what, before, placed, fact.text),
                code=fact.code,
                served=fact.served or None,
                given=fact.given,
                cost=fact.cost,
                gain=fact.gain,
                speed=fact.speed,
                workers=workers,
                where=where(placed) if placed is not None else "",
            )
        )

    def _end_wait(self, at: float) -> None:
        line = self._wait.line(at) if self._wait is not None else None
        if line is not None:
            self.lines.append(line)
        self._wait = None

    def _stopped(self, at: float) -> None:
        """Add up the time that it ran."""
        self._ran += at - self._since if self._since is not None else 0.0
        self._since = None

    def _add(self, at: float, what: str, text: str) -> None:
        self.lines.append(StoryLine(at, what, text))


def _verb(kind: str, before: int, after: int) -> str:
    match kind:
        case Kind.START:
            return "started"
        case Kind.MIGRATE:
            return "moved"
        case Kind.PREEMPT:
            return "preempted"
        case _:
            return "grew" if after > before else "shrank" if after < before else "moved"


def _told(what: str, before: int, placed: Placement | None, why: str) -> str:
    """`2 to 4 workers on n0[0-3]: devices are free, and the job can use more`."""
    if placed is None:
        return why
    after = placed.count(Role.WORKER)
    counted = f"{after} worker{'s' if after != 1 else ''}"
    changes = f"{before} to {counted}" if what in ("grew", "shrank") else counted
    return f"{changes} on {where(placed)}: {why}"
