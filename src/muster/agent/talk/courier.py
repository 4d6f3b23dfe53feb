"""Brings word of tasks to the daemon: their starts, their logs, their ends."""

import asyncio
import contextlib
import logging

from muster.agent.talk.link import Connection
from muster.agent.talk.log_feed import LogFeed
from muster.agent.talk.outbox import Outbox
from muster.agent.tasks.task_table import TaskTable
from muster.executors.local import LocalExecutor
from muster.executors.local.shim import uptime
from muster.executors.transit import TaskReport
from muster.model.task import TaskExited, TaskStarted
from muster.wire.agents.agent_messages import LogStored, Welcome

FIRST_TICK, LOG_TICK = 0.02, 0.2
"""s between two looks at the logs, just after an order and later: who starts a job waits for its first
line."""
HOLD = 2.0
"""s that the report of an end waits for the last words of its log to be sent before it."""
BACKLOG = 2**20
"""Bytes not taken by the network above which no logs are sent: beats and reports are more urgent."""

_log = logging.getLogger("muster.agent")


class Courier:
    """Keeps what the daemon has not heard yet, over connections. The event loop's thread alone."""

    def __init__(self, executor: LocalExecutor) -> None:
        self.table = TaskTable()
        self._executor, self._outbox = executor, Outbox()
        self._feed = LogFeed(executor.read_log, uptime())
        self._held: list[tuple[float, TaskExited, str]] = []
        """Ends whose logs are not sent yet: until when they wait, and the log."""
        self._connection: Connection | None = None
        self._pump = asyncio.Event()
        self._tick = LOG_TICK

    @property
    def idle(self) -> bool:
        """Whether the node has no task, and the daemon has heard of all it had."""
        return not (len(self.table) or len(self._outbox) or self._held)

    def adopt(self) -> None:
        """Take over the tasks that an earlier agent has left."""
        found = list(self._executor.unsettled())
        for task, folder in found:
            self.table.add(task, folder.log(), folder.lease())
        self._executor.attach([task for task, _ in found])
        self.follow()
        if found:
            _log.info("found %d tasks of an earlier agent", len(found))

    def follow(self) -> None:
        """Send the logs of all tasks from now on."""
        self._tick = FIRST_TICK
        self._pump.set()
        for log in self.table.logs():
            self._feed.follow(log, uptime())

    def begin(self, connection: Connection, welcome: Welcome) -> None:
        """Send on a new connection what this daemon does not have."""
        self._connection = connection
        self._feed.connected(welcome.logs)
        # The logs first: a report of an end is then not ahead of the last words.
        self._send_logs()
        self._stored(self._outbox.connected(welcome.reported))
        self._flush()

    def pause(self) -> None:
        """The connection has ended."""
        self._connection = None

    def collect(self) -> None:
        """Take the executor's reports."""
        for report in self._executor.collect():
            if isinstance(report, TaskStarted):
                self._outbox.add(report)
            elif isinstance(report, TaskExited):
                self._held.append((uptime() + HOLD, report, self.table.ended(report.task)))
        self._send_logs()
        self._flush()

    def report_stored(self, seq: int) -> None:
        """The daemon has all reports up to this one."""
        self._stored(self._outbox.stored(seq))

    def log_stored(self, answer: LogStored) -> None:
        """The daemon has a log up to some place, or wants no more of it."""
        self._feed.stored(answer.log, answer.offset, answer.full)
        self._settle()
        self._pump.set()

    async def feed(self) -> None:
        """Send logs as they are written, until cancelled."""
        while True:
            self._send_logs()
            self._flush()
            self._settle()
            self._pump.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._tick):
                    await self._pump.wait()
            self._tick = min(2 * self._tick, LOG_TICK)

    def _send_logs(self) -> None:
        if self._connection is not None and self._connection.backlog < BACKLOG:
            for part in self._feed.parts(uptime()):
                self._connection.send(part)

    def _flush(self) -> None:
        """Send the reports, those of ends once their logs are on their way."""
        now, held, self._held = uptime(), self._held, []
        for end in held:
            until, report, log = end
            if self._connection is None or now > until or self._feed.all_sent(log):
                self._outbox.add(report)
            else:
                self._held.append(end)
        if self._connection is not None and (messages := self._outbox.unsent()):
            self._connection.send(*messages)

    def _stored(self, reports: list[TaskReport]) -> None:
        for report in reports:
            if isinstance(report, TaskExited):
                self.table.told(report.task)
        self._settle()

    def _settle(self) -> None:
        """Forget tasks of which the daemon has the end and the log."""
        for task, log in self.table.told_with_logs():
            if self._feed.all_stored(log):
                self._executor.settle(task)
                self.table.remove(task)
                if not self.table.uses(log):
                    self._feed.forget(log)
