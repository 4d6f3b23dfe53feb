"""Moves parts between workers when a formation begins: each fetches what it shall keep from holders.

Members agree in two stages, as updating owners do: a part is *prepared* when it has arrived, and kept
once all members have theirs. If a member is lost in between, the survivors' roll call tells whether
anybody keeps the new parts: then all do, for all have prepared them; else all keep the old ones.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from muster.runtime.members.ballot import MemberStatus
from muster.runtime.members.crew import Crew, plan_name
from muster.runtime.members.peers import PeerServer
from muster.runtime.settings import TaskSettings
from muster.runtime.sharded.kept_parts import KeptParts
from muster.runtime.sharded.layout import ShareLayout, layout_of
from muster.runtime.sharded.part_files import read_pieces
from muster.runtime.sharded.sharded_state import ShardedState
from muster.runtime.shards.fetch import ShardMap, StateClient, StateServer, SyncPoint
from muster.runtime.shards.ownership import LostShardError, OwnedRange, Range, moves
from muster.runtime.shards.state_pieces import Piece
from muster.wire.tasks.messages import Member, MemberPlan

AT_ONCE = 8
"""Members that a worker receives from at the same time."""


@dataclass(frozen=True, slots=True)
class _PreparedPart:
    """What this worker will keep in a formation, once all have theirs."""

    formation: int
    layout: ShareLayout
    rank: int
    pieces: list[Piece]


class Resharder:
    """This worker's parts, from formation to formation."""

    def __init__(
        self,
        parts: KeptParts,
        state: ShardedState,
        peers: PeerServer,
        settings: TaskSettings,
        mirror: bool,
    ) -> None:
        self._parts, self._state, self._settings, self._mirror = parts, state, settings, mirror
        self._server = StateServer(peers, state)
        self.kept = 0
        """The formation whose part this worker keeps; 0: everything, or what it began with."""
        self._holdings: tuple[OwnedRange, ...] = parts.all_to(settings.task)
        self._prepared: _PreparedPart | None = None

    @property
    def prepared(self) -> int:
        """The formation whose part has arrived here, but not everywhere yet; 0: none."""
        return self._prepared.formation if self._prepared else 0

    def resolve(self, rows: Sequence[MemberStatus]) -> bool:
        """Keep what is prepared if another member does; return whether it was kept."""
        prepared, self._prepared = self._prepared, None
        if prepared is None or all(row.kept != prepared.formation for row in rows):
            return False
        self._keep(prepared)
        return True

    def enter(self, crew: Crew, holders: Sequence[int], leavers: Sequence[Member]) -> ShareLayout:
        """Fetch this worker's part of a formation, and wait for all others.

        `holders`: ranks with the parts of the last step; `leavers`: previous members that wait until
        theirs are fetched. Raises `LostShardError` on all members if a part is lost.
        """
        moment, members = sync_point(crew.plan), crew.plan.members
        asking = StateClient(moment, self._settings.token, crew.plan.deadline)
        sources = {m.task: m.address for m in (*(members[rank] for rank in holders), *leavers)}
        old, lost = ShardMap(self._holdings, sources), None
        if self._state.saved is not None:  # just read: all parts are in files
            where, names = self._state.saved
            old = ShardMap((), dict.fromkeys(names, where))
        if crew.rank in holders:
            self._server.begin(moment, self._parts, old)  # type: ignore[arg-type]
        else:
            first = members[holders[crew.rank % len(holders)]]
            old = asking.whole(first.address, self._state, parameters=False)
        layout = layout_of(crew.plan, self._mirror)
        try:
            pieces = self._fetch(asking, old, layout)
            self._prepared = _PreparedPart(crew.formation, layout, crew.rank, pieces)
        except LostShardError:
            gone = sorted({t for h in old.holdings for t in h.holders} - set(sources))
            lost = LostShardError(f"a part of the model is lost with {' and '.join(gone)}")
        self._await_all(crew, lost)
        prepared, self._prepared = self._prepared, None
        assert prepared is not None
        self._keep(prepared)
        return layout

    def part(self, plan: MemberPlan) -> None:
        """Let the members of a plan without this task fetch what it keeps."""
        self._server.begin(sync_point(plan), self._parts)  # type: ignore[arg-type]

    def abandon(self, formation: int) -> None:
        """Fail requests of a broken formation."""
        self._server.end(over=formation)

    def _fetch(self, asking: StateClient, old: ShardMap, layout: ShareLayout) -> list[Piece]:
        """Fetch the pieces that this worker shall keep and does not have."""
        if not old.holdings:
            ranges = [h.range for h in layout.holdings(self._parts.lengths) if self._keeps(h)]
            (where,) = set(old.sources.values())
            return read_pieces(where, sorted(old.sources), self._parts.elements(ranges))
        wanted = self._wanted(old, layout)
        if not wanted:
            return []
        with ThreadPoolExecutor(min(AT_ONCE, len(wanted)), "muster-reshard") as pool:
            answers = [
                pool.submit(asking.pieces, old.sources[task], ranges) for task, ranges in wanted.items()
            ]
            return [piece for answer in answers for piece in answer.result()]

    def _keeps(self, holding: OwnedRange) -> bool:
        return self._settings.task in holding.holders

    def _wanted(self, old: ShardMap, layout: ShareLayout) -> Mapping[str, list[Range]]:
        """Return the ranges to fetch, by the task that has them."""
        tasks = {task for holding in old.holdings for task in holding.holders}
        lost, me = tasks - set(old.sources), self._settings.task
        before, after = _by_unit(old.holdings), _by_unit(layout.holdings(self._parts.lengths))
        found: dict[str, list[Range]] = {}
        for unit, new in after.items():  # unit by unit: `moves` compares all with all
            for move in moves(before[unit], new, lost):
                if move.target == me:
                    found.setdefault(move.source, []).append(move.range)
        return found

    def _await_all(self, crew: Crew, lost: LostShardError | None) -> None:
        ready = torch.tensor([0.0 if lost else 1.0])
        if crew.group is not None:
            crew.group.allreduce(ready).wait()
        self._server.end()
        if int(ready) < crew.size:
            self._prepared = None
            raise lost or LostShardError("another member misses a part of the model")

    def _keep(self, prepared: _PreparedPart) -> None:
        self._parts.keep(prepared.layout, prepared.rank, prepared.pieces)
        self._holdings = prepared.layout.holdings(self._parts.lengths)
        self.kept, self._state.saved = prepared.formation, None


def sync_point(plan: MemberPlan) -> SyncPoint:
    """Return the pause at which a formation begins."""
    return SyncPoint(plan.formation, plan_name(plan))


def _by_unit(holdings: Sequence[OwnedRange]) -> dict[int, list[OwnedRange]]:
    found: dict[int, list[OwnedRange]] = {}
    for holding in holdings:
        found.setdefault(holding.range.tensor, []).append(holding)
    return found
