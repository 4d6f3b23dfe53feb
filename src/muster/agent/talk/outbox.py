"""Reports on their way to the daemon: numbered, and kept until it has them.

Not written to disk: what they tell is in the tasks' folders. A restarted agent reports tasks that are
not settled from there again, under a new `run`.
"""

from collections import deque

from muster.executors.local.shim import uptime
from muster.executors.transit import TaskReport, report_fields
from muster.wire.agents.agent_messages import AgentReport


class Outbox:
    """The reports of one run of an agent that the daemon has not acknowledged, oldest first."""

    def __init__(self) -> None:
        self._last = 0
        self._sent = 0
        """The last one that was sent on this connection."""
        self._kept: deque[tuple[int, TaskReport]] = deque()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, report: TaskReport) -> None:
        """Keep a report whose time is in s since boot."""
        self._last += 1
        self._kept.append((self._last, report))

    def connected(self, stored: int) -> list[TaskReport]:
        """Begin again on a new connection to a daemon that has these; return them as `stored` does."""
        self._sent = 0
        return self.stored(stored)

    def unsent(self) -> list[AgentReport]:
        """Return what was not sent on this connection; from now on it was."""
        found = [_message(seq, report) for seq, report in self._kept if seq > self._sent]
        self._sent = self._last
        return found

    def stored(self, seq: int) -> list[TaskReport]:
        """The daemon has all up to this one: drop and return them."""
        found: list[TaskReport] = []
        while self._kept and self._kept[0][0] <= seq:
            found.append(self._kept.popleft()[1])
        return found


def _message(seq: int, report: TaskReport) -> AgentReport:
    what, fields = report_fields(report)
    return AgentReport(seq, max(0.0, uptime() - report.at), what, str(report.task), fields)
