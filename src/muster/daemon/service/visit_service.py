"""Requests that lead into a job's tasks."""

import socket

from muster.daemon.service.governing.audit import audited
from muster.daemon.service.protocol import Caller
from muster.daemon.service.reading.reading_service import ReadingService
from muster.daemon.service.visited import owners_only, visited_task
from muster.wire.visits.visits import Visit

LOOKED_AT = 500
"""Changes of a job among which its last tasks are looked for."""


class VisitService(ReadingService):
    """Opens visits; every one is in the audit log."""

    @audited("visit")
    async def visit(
        self,
        caller: Caller,
        which: str,
        visit: Visit,
        task: str | None = None,
        rank: int | None = None,
    ) -> socket.socket:
        record = await self._record(which, caller)
        owners_only(caller, record)
        gang = self._daemon.state.gangs.get(record.number)
        entries = await self._read(
            lambda: self._store.changes(None, number=record.number, limit=LOOKED_AT)
        )
        found = visited_task(record, gang, entries, visit, task, rank)
        return self._daemon.executor.visit(found.task, found.slot.node, visit)
