"""Sends the logs of tasks to the daemon while they are written.

Each log is sent from where the daemon's copy ends, at most `WINDOW` bytes ahead of what the daemon has
acknowledged, and at a limited rate: logs must delay neither beats nor reports.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.model.task import LogPiece
from muster.wire.agents.agent_messages import LogPart

PART = 64 * 2**10
"""Bytes of one message."""
WINDOW = 4 * PART
"""Bytes of a log on their way at most."""
RATE, TOTAL_RATE = 1 * 2**20, 4 * 2**20
"""Bytes/s of one log, and of all: a hundredth of a usual network card."""
BURST = 4.0
"""s of rate that may be saved up: the last words of a task that was silent go at once."""

ReadLog = Callable[[str, int, int], LogPiece]


@dataclass(slots=True)
class RateLimit:
    """Bytes that may be sent now, of a rate in bytes/s."""

    rate: float
    at: float
    saved: float = field(init=False)

    def __post_init__(self) -> None:
        self.saved = self.rate * BURST

    def allowed(self, now: float) -> int:
        self.saved = min(self.rate * BURST, self.saved + self.rate * max(0.0, now - self.at))
        self.at = now
        return int(self.saved)

    def spend(self, count: int) -> None:
        self.saved -= count


@dataclass(slots=True)
class LogCursor:
    """How far a log was sent and stored."""

    limit: RateLimit
    sent: int = 0
    stored: int = 0
    full: bool = False
    """The daemon wants no more of it."""


class LogFeed:
    """The logs that somebody may still want, by name."""

    def __init__(
        self, read: ReadLog, now: float, rate: float = RATE, total: float = TOTAL_RATE
    ) -> None:
        self._read, self._rate = read, rate
        self._all = RateLimit(total, now)
        self._logs: dict[str, LogCursor] = {}
        self._have: Mapping[str, Any] = {}
        """What the daemon had of each log when it was connected."""

    def follow(self, log: str, now: float) -> None:
        """Send a log. Idempotent."""
        if log and log not in self._logs:
            have = self._offset(log)
            self._logs[log] = LogCursor(RateLimit(self._rate, now), have, have)

    def forget(self, log: str) -> None:
        """Send no more of a log."""
        self._logs.pop(log, None)

    def connected(self, have: Mapping[str, Any]) -> None:
        """Begin again with a daemon that has so much of each log."""
        self._have = have
        for log, cursor in self._logs.items():
            cursor.sent = cursor.stored = self._offset(log)
            cursor.full = False

    def parts(self, now: float) -> Iterator[LogPart]:
        """Yield what may be sent now, a part of each log in turn."""
        waiting = list(self._logs)
        while waiting:
            found = [(log, self._part(log, now)) for log in waiting]
            yield from (part for _, part in found if part is not None)
            waiting = [log for log, part in found if part is not None]

    def stored(self, log: str, offset: int, full: bool) -> None:
        """The daemon has a log up to there."""
        cursor = self._logs.get(log)
        if cursor is not None:
            cursor.full = cursor.full or full
            cursor.stored = max(cursor.stored, min(offset, self._end(log)))
            # It may have more than it said at first: then that is not sent again.
            cursor.sent = max(cursor.sent, cursor.stored)

    def all_sent(self, log: str) -> bool:
        """Whether the log as it is now is on its way."""
        cursor = self._logs.get(log)
        return cursor is None or cursor.full or cursor.sent >= self._end(log)

    def all_stored(self, log: str) -> bool:
        """Whether the daemon has the log as it is now, or wants no more of it."""
        cursor = self._logs.get(log)
        return cursor is None or cursor.full or cursor.stored >= self._end(log)

    def _part(self, log: str, now: float) -> LogPart | None:
        """Return the next part of a log; None if there is none to be sent now."""
        cursor = self._logs[log]
        room = min(PART, WINDOW - (cursor.sent - cursor.stored))
        room = min(room, cursor.limit.allowed(now), self._all.allowed(now))
        if cursor.full or room <= 0:
            return None
        try:
            piece = self._read(log, cursor.sent, room)
        except LookupError:
            return None  # nothing was written yet
        if not piece.data:
            return None
        if piece.offset > cursor.sent:
            cursor.stored = piece.offset  # the log was trimmed: nobody can send what is gone
        cursor.sent = piece.next
        for limit in (cursor.limit, self._all):
            limit.spend(len(piece.data))
        return LogPart(log, piece.offset, base64.b64encode(piece.data).decode("ascii"))

    def _end(self, log: str) -> int:
        try:
            return self._read(log, -1, 1).next
        except LookupError:
            return 0

    def _offset(self, log: str) -> int:
        have = self._have.get(log, 0)
        return have if isinstance(have, int) and have >= 0 else 0
