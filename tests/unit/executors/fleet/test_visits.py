"""Visitors of the fleet that cannot be let in."""

import asyncio
import socket
from pathlib import Path

from muster.executors.fleet.visits import FleetVisits
from muster.wire.visits.splice import close, ends_of
from muster.wire.visits.visits import Visit, VisitKind
from tests.unit.executors.fleet.talking import World, task


def test_a_visitor_that_is_still_speaking_hears_why_it_is_refused(tmp_path: Path) -> None:
    async def scene() -> bytes:
        visits = FleetVisits(World(tmp_path).fleet, 1)
        visitor, door = socket.socketpair()
        visits.open(task(), "far", Visit(VisitKind.EXEC, ("true",)), door)
        hears, says = await ends_of(visitor)
        says.write(b"what the command is to read")
        await says.drain()
        heard = await hears.read()
        await close(says)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        return heard

    assert b"the agent of node far is not connected" in asyncio.run(scene())
