"""Owners that also update, in a running job: `MemberPlan.owners == "update"`.

Every member keeps the optimiser's state of the ranges it owns or mirrors, so state moves when a
formation begins, and all wait for it: these owners stall on a resize, but save memory and time in every
step. Two things decide a step:

  vote      an empty all-reduce after the sums: a member that completes it knows that all others have
            the whole update, and commits
  resolve   a member that does not keeps the update staged until the survivors' roll call: if one of
            them has committed, all do; else no one has, and the step is redone

The same holds for the state of a new formation: it is prepared, and adopted once all have theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from muster.runtime.comm.stream import send_json
from muster.runtime.data.samples import Position
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.ballot import MemberStatus
from muster.runtime.members.crew import Crew, plan_name
from muster.runtime.members.peers import PeerServer, await_peers
from muster.runtime.settings import TaskSettings
from muster.runtime.shards.fetch import ShardMap, StateClient, StateServer, SyncPoint
from muster.runtime.shards.ownership import (
    LostShardError,
    OwnedRange,
    Range,
    held_by,
    merged,
    moves,
    overlap,
)
from muster.runtime.shards.shard_updater import ShardUpdater
from muster.runtime.shards.state_pieces import Piece, check_elementwise
from muster.runtime.state.state import TrainingState
from muster.runtime.step.buckets import Buckets
from muster.runtime.step.withheld import withheld
from muster.wire.tasks.messages import Member, MemberPlan

RATES = 1 << 30
"""Tag of hyper-parameters sent to servers; chunks have small tags."""
END = 1 << 62
"""The settled formation of a task whose training is over: above all others."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What this task will keep in a formation, once all have theirs."""

    formation: int
    holdings: tuple[OwnedRange, ...]
    """Empty: the optimiser keeps everything."""
    pieces: list[Piece]
    known: bool
    """Whether what was kept before is still valid."""


class OwnedState:
    """This task's part of the optimiser's state, across steps and formations."""

    def __init__(
        self, state: TrainingState, buckets: Buckets, peers: PeerServer, settings: TaskSettings
    ) -> None:
        self._state, self._buckets, self._settings = state, buckets, settings
        self._serves = settings.role != "worker"
        self._rest = StateServer(peers, state)
        self._updater: ShardUpdater | None = None
        self.kept = 0
        """The formation whose part this task keeps; 0: it has the whole state, or none."""
        self._holdings: tuple[OwnedRange, ...] = ()
        self._staged: list[int] | None = None
        """Parameters without a gradient in the step that awaits its vote; None: no such step."""
        self._prepared: _Prepared | None = None
        self._ahead: set[str] = set()
        """Tasks that were ahead when this one committed a staged step: they know the schedule."""
        self._sent: list[tuple[Any, Tensor]] = []
        self._settled = 0
        peers.on("settled", lambda sock, _: send_json(sock, {"settled": self._settled}))

    @property
    def _whole(self) -> tuple[Range, ...]:
        return tuple(Range(i, 0, flat.numel()) for i, flat in enumerate(self._buckets.host))

    @property
    def active(self) -> bool:
        """Whether this task, not the optimiser, keeps a part of the state, or is about to."""
        return self._updater is not None or self._prepared is not None

    @property
    def prepared(self) -> int:
        """The formation this task has received its part of; 0: none."""
        return self._prepared.formation if self._prepared else 0

    def check(self, leased: bool, clips: bool) -> None:
        """Raise if updating owners cannot do this training."""
        if len(self._state.optimizers) > 1:
            raise BadTrainingError(
                'owners that update know one optimiser, and there are several: use owners="reduce"'
            )
        check_elementwise(self._state.optimizer)
        if clips:
            raise BadTrainingError(
                "clip= needs the norm of the whole gradient, which no one has if owners update: "
                'use owners="reduce"'
            )
        if leased:
            raise BadTrainingError(
                "the samples of leased shards are counted with the sum, too late if owners update: "
                'use owners="reduce"'
            )

    # a step

    def begin(self, crew: Crew) -> None:
        """Begin a step with the first worker's current hyper-parameters."""
        if not crew.holdings:
            return
        assert self._updater is not None and crew.group is not None
        self._staged = None
        rates = _rates(self._state.optimizer)
        if self._serves:
            crew.group.receive(rates, 0, RATES).wait()
            _set_rates(self._state.optimizer, rates)
        elif crew.rank == 0:
            servers = range(crew.workers, crew.size)
            self._sent = [(crew.group.send(rates, server, RATES), rates) for server in servers]
        self._updater.begin()

    def after_sum(self, bucket: int, begin: int, end: int, tensor: Tensor) -> None:
        """Update a summed chunk (communicator's thread)."""
        assert self._updater is not None
        self._updater.after_sum(bucket, begin, end, tensor)
        if self._serves and bucket < len(self._whole):
            # A server sums in its own buffers, but commits from the flats.
            self._buckets.host[bucket][begin:end] = tensor

    def vote(self, crew: Crew, unused: list[int]) -> None:
        """Find out whether all members have all sums."""
        assert crew.group is not None
        self._staged = unused
        for work, _ in self._sent:
            work.wait()
        self._sent = []
        crew.group.allreduce(torch.zeros(1)).wait()
        for parameter in self._state.parameters:
            parameter.grad = withheld(parameter)  # each worker's own is useless to others

    def commit(self) -> None:
        assert self._updater is not None and self._staged is not None
        self._updater.commit(self._buckets.host, self._staged)
        self._staged = None

    # changing members

    def resolve(self, crew: Crew, rows: Sequence[MemberStatus]) -> bool:
        """Follow a survivor that has committed; return whether this task thereby got the state."""
        prepared, self._prepared = self._prepared, None
        joined = prepared is not None and _is_agreed(prepared.formation, rows)
        if joined and prepared is not None:
            self._adopt(prepared)
        following = self._state.position.step + 1
        ahead = [rank for rank, row in enumerate(rows) if row.holds and row.step == following]
        if self._staged is not None and ahead:
            self.commit()
            row = rows[ahead[0]]
            self._state.position = Position(int(row.epoch), int(row.cursor), int(row.step))
            self._state.losses, self._ahead = row.losses, {crew.tasks[rank] for rank in ahead}
        elif self._updater is not None:
            self._updater.rollback()
        self._staged = None
        return joined

    def enter(
        self,
        crew: Crew,
        rows: Sequence[MemberStatus],
        holders: Sequence[int],
        leavers: Sequence[Member],
    ) -> None:
        """Begin a formation: fetch this task's part and wait for all others.

        `leavers`: previous members that are not in this one, and wait for it. Raises `LostShardError`
        on all members if a part is lost.
        """
        asking = self._asking(crew, moment := _moment(crew.plan))
        shards, known = self._known(crew, rows, holders, leavers)
        donor = crew.plan.members[holders[crew.rank % len(holders)]]
        problem: LostShardError | None = None
        if known:
            if self._updater is None:
                self._updater = self._make_updater(self._whole)
            self._rest.begin(moment, self._updater, shards)
            self._refresh(crew, asking, donor)
        else:
            shards = asking.whole(donor.address, self._state, parameters=True)
        new = crew.holdings or self._all_to(self._settings.task)
        try:
            pieces = self._fetch(asking, shards, new)
            self._prepared = _Prepared(crew.formation, crew.holdings, pieces, known)
        except LostShardError as lost:
            problem = lost
        self._await_all(crew, problem)
        prepared, self._prepared = self._prepared, None
        assert prepared is not None
        self._adopt(prepared)

    def part(self, plan: MemberPlan) -> None:
        """Let the members of a plan without this task fetch its part."""
        assert self._updater is not None
        self._rest.begin(_moment(plan), self._updater)
        self._await_settled(plan, plan.formation, plan.deadline)

    def end(self, crew: Crew, patience: float) -> None:
        """Wait until the training is over everywhere."""
        self._settled = END
        self._await_settled(crew.plan, END, patience)

    def abandon(self, formation: int) -> None:
        """Fail requests of a broken formation."""
        self._rest.end(over=formation)

    def forget(self) -> None:
        """Drop everything."""
        self._updater, self._prepared, self._staged = None, None, None
        self.kept, self._holdings, self._ahead = 0, (), set()

    def gather(self, crew: Crew, primary: bool) -> dict[str, Any] | None:
        """Collect the whole optimiser's state on the primary for a checkpoint; all others wait."""
        assert self._updater is not None
        moment = _moment(crew.plan, f"@{self._state.position.step}")
        sources = {member.task: member.address for member in crew.plan.members}
        shards = ShardMap(self._holdings, sources)
        self._rest.begin(moment, self._updater)
        found = None
        if primary:
            mine = self._all_to(self._settings.task)
            pieces = self._fetch(self._asking(crew, moment), shards, mine)
            found = self._updater.collect([*self._updater.state_of(self._whole), *pieces])
        self._await_all(crew, None)
        return found

    # internals

    def _known(
        self,
        crew: Crew,
        rows: Sequence[MemberStatus],
        holders: Sequence[int],
        leavers: Sequence[Member],
    ) -> tuple[ShardMap, bool]:
        """Return who kept what before, and whether this task is among them."""
        first, members = rows[holders[0]], crew.plan.members
        if first.kept:
            stand = (first.kept, first.step)
            ranks = [rank for rank, row in enumerate(rows) if (row.kept, row.step) == stand]
            held = self._holdings
        else:
            ranks, leavers = list(holders), ()
            held = self._all_to(*(members[rank].task for rank in holders[:2]))
        sources = [*(members[rank] for rank in ranks), *leavers]
        return ShardMap(held, {m.task: m.address for m in sources}), crew.rank in ranks

    def _make_updater(self, held: Sequence[Range]) -> ShardUpdater:
        state, buckets = self._state, self._buckets
        return ShardUpdater(state.optimizer, state.parameters, buckets.slots, held)

    def _refresh(self, crew: Crew, asking: StateClient, donor: Member) -> None:
        """Fetch what a task with its part lacks: a newer schedule, or a server's parameters."""
        if self._serves:
            before = merged(held_by(self._settings.task, self._holdings))
            wanted = held_by(self._settings.task, crew.holdings)
            if not all(any(overlap(one, held) == one for held in before) for one in wanted):
                asking.whole(donor.address, self._state, parameters=True)
        else:
            ahead = [member for member in crew.plan.members if member.task in self._ahead]
            for member in ahead[:1]:
                asking.whole(member.address, self._state, parameters=False)
        self._ahead = set()

    def _fetch(self, asking: StateClient, shards: ShardMap, new: Sequence[OwnedRange]) -> list[Piece]:
        """Fetch the pieces this task must keep and does not have."""
        tasks = {task for holding in shards.holdings for task in holding.holders}
        found = moves(shards.holdings, new, lost=tasks - set(shards.sources))
        wanted: dict[str, list[Range]] = {}
        for move in found:
            if move.target == self._settings.task:
                wanted.setdefault(move.source, []).append(move.range)
        return [
            piece
            for source, ranges in wanted.items()
            for piece in asking.pieces(shards.sources[source], ranges)
        ]

    def _await_all(self, crew: Crew, problem: LostShardError | None) -> None:
        """Wait until all have what they need; raise if one cannot."""
        ready = torch.tensor([0.0 if problem else 1.0])
        if crew.group is not None:
            crew.group.allreduce(ready).wait()
        self._rest.end()
        if int(ready) < crew.size:
            self._prepared = None
            raise problem or LostShardError("another member misses a part of the optimiser's state")

    def _adopt(self, prepared: _Prepared) -> None:
        """Keep what was prepared from now on."""
        if not prepared.known:
            self._state.optimizer.state.clear()
            self._updater = None
        held = held_by(self._settings.task, prepared.holdings) if prepared.holdings else self._whole
        updater = self._updater or self._make_updater(held)
        updater.hold(held)
        updater.load_state(prepared.pieces)
        updater.refresh()
        self._updater, self._holdings = updater, prepared.holdings
        self.kept = self._settled = prepared.formation
        if not prepared.holdings:
            self._state.optimizer.load_state_dict(updater.collect(updater.state_of(self._whole)))
            self._updater, self.kept = None, 0
        elif self._serves:
            # A commit takes a server's parameters from the flats.
            for slot in self._buckets.slots:
                parameter = self._state.parameters[slot.parameter].detach()
                self._buckets.host[slot.bucket][slot.begin : slot.end] = parameter.reshape(-1)

    def _all_to(self, owner: str, mirror: str | None = None) -> tuple[OwnedRange, ...]:
        return tuple(OwnedRange(range_, owner, mirror) for range_ in self._whole)

    def _asking(self, crew: Crew, moment: SyncPoint) -> StateClient:
        return StateClient(moment, self._settings.token, crew.plan.deadline)

    def _await_settled(self, plan: MemberPlan, goal: int, patience: float) -> None:
        """Wait until all live members have settled a formation."""
        addresses = [member.address for member in plan.members]
        await_peers(addresses, "settled", goal, self._settings.token, patience)


def _is_agreed(formation: int, rows: Sequence[MemberStatus]) -> bool:
    """Whether all members had received their part, as far as any of them knows."""
    states = [{row.kept, row.prepared} for row in rows if row.holds or row.kept or row.prepared]
    return any(row.kept == formation for row in rows) or all(formation in s for s in states)


def _moment(plan: MemberPlan, suffix: str = "") -> SyncPoint:
    return SyncPoint(plan.formation, plan_name(plan) + suffix)


def _rates(optimizer: Any) -> Tensor:
    """Return all numeric hyper-parameters, in one order everywhere."""
    values = [group[name] for group in optimizer.param_groups for name in sorted(group)]
    numbers = [float(part) for value in values for part in _parts(value) if _kind(part)]
    return torch.tensor(numbers, dtype=torch.float64)


def _set_rates(optimizer: Any, rates: Tensor) -> None:
    numbers = iter(rates.tolist())
    for group in optimizer.param_groups:
        for name in sorted(group):
            value = group[name]
            taken = [kind(next(numbers)) for kind in map(_kind, _parts(value)) if kind]
            if taken:
                group[name] = tuple(taken) if isinstance(value, tuple) else taken[0]


def _parts(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple) else (value,)


def _kind(value: Any) -> Any:
    """Return the type of a number; None for anything else."""
    if isinstance(value, Tensor):
        return float
    return type(value) if isinstance(value, bool | int | float) else None
