"""A member whose model is in parts: what differs from a member that holds the whole state.

A step counts once a member has all ballots, for then every member has all its sums. One that has its
sums but not all ballots regroups at once, before the user's code goes on: if a survivor has counted the
step, its ballots are fetched, and the user's code updates as if nothing had happened; the others wait
with the new formation until it has. Else the step is redone by all.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from operator import or_
from pathlib import Path

import torch
from torch import Tensor

from muster.runtime.comm.base import Alone
from muster.runtime.comm.choose import SyncChoice
from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.nccl import Nccl
from muster.runtime.comm.ring import Ring
from muster.runtime.comm.store import StoreClient
from muster.runtime.comm.stream import send_json
from muster.runtime.data.feed import Feed, StepPart
from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.members.ballot import (
    NOTHING,
    STOP,
    MemberStatus,
    Ours,
    Vote,
    ballot_size,
    read,
    unused,
)
from muster.runtime.members.crew import Crew, Pending, plan_name
from muster.runtime.members.entering import check_data, check_layout
from muster.runtime.members.peers import ask, await_peers
from muster.runtime.members.regroup import CurrentPlans
from muster.runtime.settings import TaskSettings
from muster.runtime.sharded.exchange import GlooExchange, NcclExchange, ShareExchange, SoleExchange
from muster.runtime.sharded.kept_parts import KeptParts
from muster.runtime.sharded.layout import ShareLayout
from muster.runtime.sharded.part_files import PartWriter
from muster.runtime.sharded.reshard import Resharder
from muster.runtime.sharded.sharded_model import ShardedModel
from muster.runtime.sharded.sharded_state import ShardedState
from muster.runtime.shards.ownership import LostShardError
from muster.runtime.state.checkpoint import Checkpoints
from muster.runtime.step.engine import StepEngine
from muster.wire.tasks.messages import Member, MemberPlan


@dataclass(frozen=True, slots=True)
class ShardedBuilder:
    """What a task needs to build a formation of workers with parts of a model."""

    settings: TaskSettings
    shards: ShardedModel
    device: torch.device

    def build(self, plan: MemberPlan) -> Crew:
        """Meet the others; `BrokenGroupError` if one is missing."""
        names = [member.task for member in plan.members]
        rank, size = names.index(self.settings.task), len(names)
        ballot = torch.zeros(ballot_size(size, len(self.shards.parameters)), dtype=torch.float64)
        if size == 1:
            alone = SyncChoice("none", words="no synchronisation")
            return Crew(plan, rank, None, Alone(), alone, ballot)
        store = StoreClient(
            plan.members[0].address, self.settings.token, plan_name(plan), plan.deadline
        )
        group = GlooGroup(store, rank, size, self.settings.host)
        words = f"parameters in {size} parts"
        if self.device.type == "cuda":
            nccl = Nccl(group, [ballot], self.device)
            return Crew(plan, rank, group, nccl, SyncChoice("nccl", words=words), ballot)
        return Crew(plan, rank, group, Ring(group, [ballot]), SyncChoice("ring", words=words), ballot)


class ShardedEngine(StepEngine):
    """A worker that keeps a part of the model."""

    def __init__(
        self,
        settings: TaskSettings,
        state: ShardedState,
        shards: ShardedModel,
        feed: Feed,
        device: torch.device,
        deadline: float,
        mirror: bool = True,
        export: str = "",
        say: Callable[[str], None] = print,
    ) -> None:
        """`mirror`: keep each part on two workers; `export`: where the whole model goes at the end."""
        super().__init__(settings, state, shards, feed, device, deadline)
        self.shards, self.whole = shards, False
        shards.on_broken = self.lose
        self.parts = KeptParts(shards, state.optimizer, device)
        self._resharder = Resharder(self.parts, state, self.peers, settings, mirror)
        builder = ShardedBuilder(settings, shards, device)
        self._pending = Pending(builder)  # type: ignore[arg-type]
        self._builder = builder  # type: ignore[assignment]
        self._counted: tuple[int, list[float]] = (0, [])
        """The last counted step and its ballots."""
        self._step_crew: Crew | None = None
        """The formation of the current step."""
        self._grads: tuple[tuple[int, int], ...] = ()
        """The gradients as they were summed: their identities and versions."""
        self._norm = 0.0
        """Of the whole gradient."""
        self._late: tuple[Crew, Crew] | None = None
        """The formation of a step that others have counted, and the next, which waits for it."""
        self._say, self._writer = say, PartWriter(self.peers, settings.token, say)
        self._export, self._exported = export, 0
        self.peers.on("exported", lambda sock, _: send_json(sock, {"exported": self._exported}))
        self.peers.on("counted", lambda sock, _: send_json(sock, {"counted": self._counted}))
        self.peers.on("entered", lambda sock, _: send_json(sock, {"entered": self._resharder.kept}))

    # a step

    def begin(self) -> StepPart:
        """Begin a step; every worker takes part in it, with samples or without."""
        self._step_crew, self._grads, self._norm = self._crew(), (), 0.0
        part = super().begin()
        if self.void:  # user code only catches up with others that are in a void step
            self.shards.begin_void()
        self.shards.guarded = True
        return part

    def rounds(self, own: int) -> int:
        """Return the most micro-batches of any worker: all gather the blocks for each of them."""
        crew = self._crew()
        if crew.group is None or self.void:
            return own
        every = torch.zeros(crew.size, dtype=torch.int64)
        every[crew.rank] = own
        try:
            crew.group.allreduce(every).wait()
        except BrokenGroupError:
            self.lose()
            return own
        return int(every.max())

    def sum(self, ours: Ours = NOTHING) -> None:
        """Sum what is left; if a member is lost after that, find out whether the step counts."""
        super().sum(ours)
        if self._broken and self.shards.summed:
            crew = self._crew()
            self._regroup()
            if self._late is not None:
                self.void, self._void_step, self.sums = False, 0, self.sums + 1
                self._judge(crew)

    def _sum(self, crew: Crew, ours: Ours) -> None:
        if ours.skip:
            raise BadTrainingError(
                "with shard= call ctx.skip() after ctx.backward(losses), on every worker: the others "
                "need this worker's parts of the model in their backward pass"
            )
        if ours.failed:  # the others cannot finish without it: all regroup, and learn its limit
            raise BrokenGroupError("this worker's samples did not fit into its memory")
        self.shards.finish()
        if isinstance(crew.communicator, Nccl):
            crew.communicator.drain()  # so that whoever votes has its sums
        super()._sum(crew, ours)

    def _share_out(self, crew: Crew, samples: float, losses: float, weight: float) -> None:
        super()._share_out(crew, samples, losses, weight)
        factor = self.part.total / weight
        if crew.size == 1:
            self.shards.spread(unused(crew.ballot, 1), factor)
        self._norm = factor * float(sum(vote.norm for vote in self._votes) ** 0.5)
        self._note_gradients()

    def _vote(self, ours: Ours) -> Vote:
        return replace(super()._vote(ours), norm=self.shards.norm_squared())

    def reached(self) -> set[int]:
        """Return the parameters with a gradient on any worker."""
        crew, every = self._step_crew, range(len(self.shards.parameters))
        return set(every) - set(unused(crew.ballot, crew.size)) if crew is not None else set()

    def clip(self, max_norm: float) -> float:
        """Scale the gradients down to a norm; return the norm of the whole gradient before."""
        factor = max_norm / (self._norm + 1e-6)  # as torch.nn.utils.clip_grad_norm_
        if factor < 1:
            self.shards.scale(factor)
        self._note_gradients()
        return self._norm

    def _note_gradients(self) -> None:
        grads = [p.grad for p in self.shards.parameters]
        self._grads = tuple((id(grad), grad._version) for grad in grads if grad is not None)

    def before_update(self) -> list[int]:
        """Prepare for the update; refuse gradients that were changed without the whole."""
        noted = self._grads
        self._note_gradients()
        if noted != self._grads:
            raise BadTrainingError(
                "gradients were changed between ctx.backward() and optimizer.step(): with shard= each "
                "worker has a part of them only; to clip their norm, call ctx.clip(max_norm)"
            )
        return super().before_update()

    def commit(self) -> None:
        """Finish the step; one that others have counted before, as a member of their formation."""
        self.shards.guarded = False
        if self._late is None:
            self._counted = (self.state.position.step + 1, self._crew().ballot.tolist())
            super().commit()
            return
        old, new = self._late
        before, losses = self.state.position, self.state.partial
        self.state.phase, self.state.partial = 0, 0.0
        self.state.losses += losses
        self.is_new = False
        self._report(old, self._votes[old.rank], losses)
        self._move_on(old)
        self._counted = (self.state.position.step, old.ballot.tolist())
        self.requested = reduce(or_, (int(vote.request) for vote in self._votes))
        self._follow_ending()
        self.on_commit(before, losses)
        self._late = None
        try:
            self._go_in(new)
        except BrokenGroupError:
            self.lose()
            self._recover_if_broken()

    def mend(self, step_open: bool = False) -> None:
        """Regroup between two sums; the rest of a void step is done on zeros, as everywhere."""
        super().mend(step_open)
        if step_open:
            self.shards.begin_void()

    def gathered(self) -> AbstractContextManager[None]:
        """Let all workers use the model beside the step, block by block."""
        return self.shards.gathered()

    def end(self) -> None:
        """Write the whole model, if that was asked for; all members take part."""
        while self._export and not self._exported:
            try:
                self._write_whole(self._crew())
            except BrokenGroupError:
                self.lose()
                self._recover_if_broken()

    def _write_whole(self, crew: Crew) -> None:
        found: dict[int, Tensor] = {}
        for block in self.shards.visit():
            for unit in block.units if self.primary else ():
                found |= {id(p): p.detach().to("cpu", copy=True) for p in unit.parameters}
        if self.primary:
            named = self.state.model.state_dict(keep_vars=True).items()
            whole = {name: found.get(id(value), value) for name, value in named}
            torch.save(whole, f"{self._export}.part")
            Path(f"{self._export}.part").replace(self._export)
        else:
            self._await_written(crew.plan.members[self._agreed.able.index(True)])
        self._exported = 1
        with suppress(BrokenGroupError):  # nobody leaves while another still asks
            self._call(crew)

    def _await_written(self, primary: Member) -> None:
        """Wait for the primary, however long it writes; raise if it is gone."""
        await_peers([primary.address], "exported", 1, self.settings.token, inf)
        try:
            ask(primary.address, {"kind": "exported"}, self.settings.token, self._deadline)
        except OSError as problem:
            raise BrokenGroupError(f"{primary.task} is lost while it writes the model") from problem

    saves_parts = True

    def save_parts(self, checkpoints: Checkpoints | None, wait: bool) -> None:
        """Write this member's part of a checkpoint; `wait`: until it is whole."""
        if checkpoints is None or self._late is not None:  # late: the others began it without this one
            return
        crew, step = self._crew(), self.state.position.step
        if wait:
            self._writer.close()
        rest = (self.state.whole(), self.state.signature()) if self.primary else None
        self._writer.save(checkpoints, crew, step, self.parts.own(), rest)
        if wait:
            self._writer.finish(crew, step, self._agreed.able.index(True))
            self._call(crew)  # nobody leaves while another still asks

    # members

    def _regroup(self) -> None:
        began, before = time.monotonic(), set(self._crew().tasks)
        self._broken, self._void_step = False, self._step
        self._recover()
        self._tell_change("failure", began, tuple(sorted(before - set(self._crew().tasks))))

    def _drop(self) -> None:
        super()._drop()
        self._resharder.abandon(self.crew.formation if self.crew else 0)

    def _part(self, plan: MemberPlan) -> None:
        self._meeting.part()
        self._resharder.part(plan)
        addresses = [member.address for member in plan.members]
        await_peers(addresses, "entered", plan.formation, self.settings.token, plan.deadline)
        super()._part(plan)

    def say_goodbye(self, how: str = "finished") -> None:
        """End the training; the workers can still evaluate together."""
        self.shards.end()
        self._writer.close()
        super().say_goodbye(how)

    def close(self) -> None:
        """Close what others reach this task by."""
        self.shards.close()
        super().close()

    def _status(self) -> MemberStatus:
        kept, prepared = self._resharder.kept, self._resharder.prepared
        return replace(super()._status(), kept=kept, prepared=prepared)

    def _enter(self, crew: Crew) -> None:
        self._late, self.shards.guarded = None, False
        with self._orders:
            self.crew = crew
        self.link.formation = crew.formation
        self._meeting.stand(CurrentPlans(crew.plan, self._before.plan if self._before else None))
        self._check_plan(crew.plan)
        rows = self._call(crew)
        check_layout(crew, rows)
        check_data(crew, rows)
        self.holds = self._resharder.resolve(rows) or self.holds
        if not self._is_late(crew, rows):
            self._go_in(crew)

    def _is_late(self, crew: Crew, rows: tuple[MemberStatus, ...]) -> bool:
        """Whether a survivor has counted the step whose sums are here; fetch its ballots."""
        following, old = self.state.position.step + 1, self._step_crew
        ahead = [m for m, row in zip(crew.plan.members, rows, strict=True) if row.step == following]
        if not (self.holds and old and self.shards.summed and ahead):
            return False
        try:
            token, deadline = self.settings.token, crew.plan.deadline
            step, ballot = ask(ahead[0].address, {"kind": "counted"}, token, deadline)["counted"]
        except (OSError, ValueError) as problem:
            raise BrokenGroupError(f"{ahead[0].task} did not send its ballots: {problem}") from problem
        assert step == following
        old.ballot.copy_(torch.tensor(ballot, dtype=old.ballot.dtype))
        self._votes, self._late = read(old.ballot, old.size), (old, crew)
        return True

    def _go_in(self, crew: Crew) -> None:
        """Give every member its part; then steps may begin."""
        rows = self._call(crew)
        if not any(row.holds for row in rows):
            self.is_new = False
            if crew.rank == 0:
                self._start_over()
                self.feed.staff([])
            rows = self._call(crew)
        holders = self._follow(crew, rows)
        names = set(crew.tasks)
        before = self._before.plan.members if self._before else ()
        leavers = [member for member in before if member.task not in names]
        self.shards.abandon()
        try:
            layout = self._resharder.enter(crew, holders, leavers)
        except LostShardError as problem:
            self._go_back(crew, rows, problem)
            return
        self.shards.enter(self._exchange(crew, layout))
        self.holds = True
        if any(row.ended for row in rows):
            self.requested |= STOP
        self._share_results(crew, rows)
        self._agreed.enter(rows, [True] * crew.size, crew.plan)
        self.feed.staff(crew.tasks)
        self._pending.discard(crew.formation)
        with self._orders:
            early, self._early = self._early, None
        if early is not None:
            self._hear(early)

    def _go_back(self, crew: Crew, rows: tuple[MemberStatus, ...], problem: LostShardError) -> None:
        step = max(int(row.step) for row in rows)
        super()._go_back(crew, rows, problem)
        if crew.rank == 0:
            now = self.state.position.step
            self._say(f"{problem}: went back from step {step} to step {now}, the latest checkpoint")

    def _exchange(self, crew: Crew, layout: ShareLayout) -> ShareExchange:
        if crew.group is None:
            return SoleExchange()
        if isinstance(crew.communicator, Nccl):
            return NcclExchange(crew.communicator, crew.group, layout)
        return GlooExchange(crew.group, layout)

    def _check_plan(self, plan: MemberPlan) -> None:
        devices = [member.device for member in plan.members]
        if self.device.type == "cuda" and len(set(devices)) < len(devices):
            raise BadTrainingError(
                "shard= needs a GPU for each worker: NCCL refuses two workers on one, unless each has "
                "an NCCL_HOSTID of its own"
            )
        if plan.owners == "update" or any(member.role != "worker" for member in plan.members):
            raise BadTrainingError(
                "shard= spreads parameters and optimiser state over the workers already: start the job "
                "without servers and without owners that update"
            )
