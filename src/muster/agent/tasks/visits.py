"""Visits to the tasks of a node: each over a connection of its own, so that none delays a beat."""

import asyncio
import contextlib
import logging

from muster.agent.talk.link import connect
from muster.agent.trust.identity import AgentFolder
from muster.executors.local import LocalExecutor
from muster.executors.transit import task_of
from muster.wire.agents.agent_codec import FROM_AGENT
from muster.wire.agents.agent_messages import OpenVisit, VisitHello
from muster.wire.visits.splice import ends_of, splice
from muster.wire.visits.visits import refusal

MOST = 64
"""Visits at a time: each is a process of the node and one of its connections."""

_log = logging.getLogger("muster.agent")


class AgentVisits:
    """The visits in progress; the event loop's thread alone."""

    def __init__(self, executor: LocalExecutor, folder: AgentFolder) -> None:
        self._executor, self._folder = executor, folder
        self._open: set[asyncio.Task[None]] = set()
        self.address = ""
        """Of the daemon in charge."""

    def open(self, message: OpenVisit) -> None:
        """Connect a visitor to a task of this node."""
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def close(self) -> None:
        """End all visits; tasks keep running."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, message: OpenVisit) -> None:
        try:
            reader, writer = await connect(self.address, self._folder.context())
        except OSError as problem:
            _log.warning("no connection for a visit to %s: %s", message.task, problem)
            return
        writer.write(FROM_AGENT.encode(VisitHello(message.key)))
        with contextlib.closing(writer):
            if len(self._open) > MOST:
                writer.write(refusal(f"{MOST} visits to this node are open already"))
                return
            beside = self._executor.visit(task_of(message.task), "", message.visit)
            await splice((reader, writer), await ends_of(beside))
