"""Visits to tasks of the fleet: an agent is asked to connect, and joined to the visitor.

The fleet's thread alone; the visitor's end is in the API's, so a pair of sockets is between them.
"""

import asyncio
import secrets
import socket
from dataclasses import dataclass

from muster.executors.fleet.fleet import Fleet
from muster.model.task import TaskId
from muster.wire.agents.agent_messages import OpenVisit
from muster.wire.visits.splice import ends_of, splice, turn_away
from muster.wire.visits.visits import Visit, refusal

ANSWER = 15.0
"""s for an agent to connect."""


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A visit whose agent has not connected yet."""

    node: str
    visitor: socket.socket


class FleetVisits:
    """The visits that agents were asked for."""

    def __init__(self, fleet: Fleet, epoch: int) -> None:
        self._fleet, self._epoch = fleet, epoch
        self._awaited: dict[str, _Awaited] = {}
        self._refused: set[asyncio.Task[None]] = set()

    def open(self, task: TaskId, node: str, visit: Visit, visitor: socket.socket) -> None:
        """Ask a node's agent to connect a visitor to a task."""
        line = self._fleet.lines.get(node)
        if line is None or node not in self._fleet.open_to_visits:
            why = "is not connected" if line is None else "is of an older release; upgrade it"
            self._refuse(visitor, f"the agent of node {node} {why}")
            return
        key = secrets.token_hex(16)
        self._awaited[key] = _Awaited(node, visitor)
        line.send(OpenVisit(self._epoch, key, str(task), visit))
        asyncio.get_running_loop().call_later(ANSWER, self._give_up, key)

    async def serve(
        self, node: str, key: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Join the connection of an agent to the visitor that it is for."""
        awaited = self._awaited.get(key)
        if awaited is None or awaited.node != node:
            return
        del self._awaited[key]
        await splice((reader, writer), await ends_of(awaited.visitor))

    def _give_up(self, key: str) -> None:
        awaited = self._awaited.pop(key, None)
        if awaited is not None:
            why = f"the agent of node {awaited.node} did not connect within {ANSWER:g} s"
            self._refuse(awaited.visitor, why)

    def _refuse(self, visitor: socket.socket, why: str) -> None:
        task = asyncio.get_running_loop().create_task(turn_away(visitor, refusal(why)))
        self._refused.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._refused.discard)
