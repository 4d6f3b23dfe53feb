"""Requests about moves that make room."""

from dataclasses import replace

from muster.core.cycle.moves.room_preview import RoomPreview, make_room_for, room_previews
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.why.words import where
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.reasons import explained
from muster.daemon.service.governing.audit import audited
from muster.daemon.service.protocol import Caller, ConflictError
from muster.daemon.service.requests import admins_only
from muster.daemon.whatif.whatif_service import WhatIfService
from muster.model.decision import Kind, Promise
from muster.model.view import View
from muster.wire.api.whatif_records import DefragRecord, MoveRecord


class DefragService(WhatIfService):
    """Answers requests about moves as well."""

    async def defrag(self, caller: Caller) -> list[DefragRecord]:
        admins_only(caller)
        found = await self._daemon.cycle_snapshot()
        previews = await self._read(room_previews, found.view, found.now, found.memory)
        return [_record(found.view, each) for each in previews]

    @audited("make room")
    async def make_room(self, caller: Caller, which: str) -> DefragRecord:
        admins_only(caller)
        state = await self._live(caller, which)
        found = await self._daemon.cycle_snapshot()
        # No await up to the entry, but for the search: what changes meanwhile makes it conflict.
        previews = await self._read(room_previews, found.view, found.now, found.memory)
        preview = next((each for each in previews if each.job == state.number), None)
        decided = make_room_for(found.view, found.now, found.memory, state.number) if preview else None
        if preview is None or decided is None:
            raise ConflictError(f"no moves make room for job {state.number} ({state.job.name}) now")
        check(found.view, decided)
        now = self._daemon.clock.now()
        moved = (each for each in decided.decisions if each.kind is not Kind.WAIT)
        told, _ = explained(moved, found.view, self._daemon.summaries, now)
        entry = Entry([*begun(decided, now), *told])
        promises = decided.memory.promises
        entry.then.append(lambda: self._keep(promises))
        await self._put(entry)
        return _record(found.view, preview)

    def _keep(self, promises: tuple[Promise, ...]) -> None:
        """Withhold the devices from others, from the next cycle on."""
        deciding = self._daemon.deciding
        deciding.memory = replace(deciding.memory, promises=promises)


def _record(view: View, preview: RoomPreview) -> DefragRecord:
    state, migration = view.jobs[preview.job], preview.migration
    moves = []
    for move in migration.moves:
        moved = view.jobs[move.job]
        assert moved.placement is not None
        about = (move.job, moved.job.name, moved.job.user, where(moved.placement))
        moves.append(MoveRecord(*about, where(move.placement), view.resize_pause(moved)))
    return DefragRecord(
        preview.job,
        state.job.name,
        state.job.user,
        state.job.pool,
        migration.placement.devices,
        where(migration.placement),
        tuple(moves),
        migration.cost,
        preview.gain,
        preview.fragmentation_before,
        preview.fragmentation_after,
    )
