"""The members of a formation, connected and ready to sum; built while the previous one runs."""

import logging
import re
import threading
import zlib
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from muster.runtime.comm.awaited import start_awaited
from muster.runtime.comm.base import Alone, Communicator
from muster.runtime.comm.choose import SyncChoice, choose, make, shards
from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.probe import probe
from muster.runtime.comm.sharded import AfterSum
from muster.runtime.comm.store import StoreClient
from muster.runtime.errors import BadTrainingError, BrokenGroupError
from muster.runtime.members.ballot import ballot_size
from muster.runtime.settings import TaskSettings
from muster.runtime.shards.ownership import OwnedRange
from muster.runtime.step.buckets import Buckets
from muster.wire.tasks.messages import Changed, MemberPlan

_log = logging.getLogger("muster")


def plan_name(plan: MemberPlan) -> str:
    """Name a plan; plans with different members or makers have different names."""
    # The survivors' plan may have number and members of the coordinator's, which some have begun to
    # build: with one name they would find each other's old addresses, and wait there for a deadline.
    tasks = ",".join((*(f"{m.task}@{m.address}" for m in plan.members), plan.leader))
    return f"{plan.formation}-{zlib.crc32(tasks.encode()):08x}"


def seniority(task: str) -> tuple[bool, int, str]:
    """Sort key of tasks, the same everywhere: workers before servers, then by number."""
    number = re.search(r"(\d+)$", task)
    return task.startswith("server"), int(number.group()) if number else 0, task


@dataclass
class Crew:
    """A formation as one of its members holds it."""

    plan: MemberPlan
    rank: int
    group: GlooGroup | None
    communicator: Communicator
    choice: SyncChoice
    ballot: Tensor
    holdings: tuple[OwnedRange, ...] = ()
    """If owners update: who keeps which part of the optimiser's state."""
    flats: list[Tensor] = field(default_factory=list)
    """What is summed: buckets and ballot."""
    layout: int = 0
    """Checksum of the buckets."""
    untold: Changed | None = None
    """The report that this task is in it, until all have come along."""

    def tell(self) -> Changed | None:
        """Return that report, once."""
        change, self.untold = self.untold, None
        return change

    @property
    def formation(self) -> int:
        return self.plan.formation

    @property
    def size(self) -> int:
        """Members, including servers."""
        return len(self.plan.members)

    @property
    def workers(self) -> int:
        """Members that train; they have the first ranks."""
        return sum(member.role == "worker" for member in self.plan.members)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names by rank."""
        return tuple(member.task for member in self.plan.members)

    def close(self) -> None:
        self.communicator.close()

    def change(self, task: str, step: int, pause: float, cause: str, lost: tuple[str, ...]) -> Changed:
        """Return what a member reports when it is in this formation."""
        where = (task, self.formation, step, self.tasks)
        return Changed(*where, pause, cause, lost, *self.choice.told)

    def fit(self, buckets: Buckets) -> None:
        """Sum other buckets than this formation was built for: what is trained has changed."""
        if self.layout == buckets.checksum:
            return
        if self.choice.kind not in ("none", "ring", "nccl"):
            raise BadTrainingError(
                "what is trained has changed, which owners and servers cannot follow: use sync=ring"
            )
        self.ballot = torch.zeros(ballot_size(self.size, len(buckets.parameters)), dtype=torch.float64)
        # In place: the communicator has the same list.
        self.flats[:] = [*(buckets.flats if self.choice.kind == "nccl" else buckets.host), self.ballot]
        self.layout = buckets.checksum


@dataclass(frozen=True, slots=True)
class Builder:
    """What a task needs to build a formation."""

    settings: TaskSettings
    buckets: Buckets
    after_sum: AfterSum
    """What updating owners do with a sum."""

    def build(self, plan: MemberPlan) -> Crew:
        """Meet the others and choose how to synchronise; `BrokenGroupError` if one is missing."""
        names = [member.task for member in plan.members]
        rank, size, buckets = names.index(self.settings.task), len(names), self.buckets
        ballot = torch.zeros(ballot_size(size, len(buckets.parameters)), dtype=torch.float64)
        flats, layout = [*buckets.host, ballot], buckets.checksum
        sizes = [flat.nbytes for flat in buckets.host]
        if size == 1:
            alone = SyncChoice("none", words="no synchronisation")
            return Crew(plan, rank, None, Alone(), alone, ballot, layout=layout)
        buckets.ready_for_others()
        token, name = self.settings.token, plan_name(plan)
        store = StoreClient(plan.members[0].address, token, name, plan.deadline)
        group = GlooGroup(store, rank, size, self.settings.host)
        members = probe(group, plan.members)
        if plan.owners == "update":
            choice = choose(plan.sync, members, sizes, update=True, decided=plan.shares)
            held = shards(choice, [flat.numel() for flat in buckets.host], members)
            mirrors = {names.index(h.owner): names.index(h.mirror) for h in held if h.mirror}
            communicator = make(choice, group, flats, members, self.after_sum, mirrors)
            return Crew(plan, rank, group, communicator, choice, ballot, held, flats, layout)
        devices = [member.device for member in members if member.role == "worker"]
        own_gpus = all(d.startswith("gpu-") for d in devices) and len(set(devices)) == len(devices)
        choice = choose(plan.sync, members, sizes, gpus=own_gpus, decided=plan.shares)
        if choice.kind == "nccl":
            flats = [*buckets.flats, ballot]
        communicator = make(choice, group, flats, members)
        return Crew(plan, rank, group, communicator, choice, ballot, (), flats, layout)


class Pending:
    """Plans being built while training continues; the highest formation that is ready counts."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._change = threading.Condition()
        self._seen = 0
        self._stands = 0
        """The formation this task has entered; 0: none."""
        self._ready: tuple[MemberPlan, Crew | None] | None = None

    def offer(self, plan: MemberPlan) -> None:
        """Start building a plan; ignore plans older than the latest."""
        with self._change:
            if plan.formation <= self._seen:
                return
            self._seen = plan.formation
        if any(member.task == self._builder.settings.task for member in plan.members):
            start_awaited(partial(self._build, plan), "muster-build")
        else:
            self._put(plan, None)  # we leave: nothing to build

    def built(self) -> int:
        """Return the formation this task could switch to; 0: none."""
        with self._change:
            return self._ready[0].formation if self._ready else 0

    def take(self, formation: int) -> tuple[MemberPlan, Crew | None]:
        """Return the plan to switch to, and its crew if this task is in it."""
        with self._change:
            assert self._ready is not None and self._ready[0].formation == formation
            ready, self._ready = self._ready, None
            return ready

    def wait(self) -> tuple[MemberPlan, Crew | None]:
        """Wait until a plan is ready."""
        with self._change:
            while self._ready is None:
                self._change.wait()
            ready, self._ready = self._ready, None
            return ready

    def discard(self, formation: int) -> None:
        """Enter a formation: drop what is built or being built and does not follow it.

        A following plan may be here already: the coordinator makes it as soon as one member has
        entered.
        """
        with self._change:
            self._seen, self._stands = max(self._seen, formation), formation
            ready = self._ready
            if ready is None or self._follows(ready[0]):
                return
            self._ready = None
        if ready[1] is not None:
            ready[1].close()

    def _follows(self, plan: MemberPlan) -> bool:
        """Not only the next: a plan may be built while this task enters the one before."""
        return plan.after >= self._stands

    def _build(self, plan: MemberPlan) -> None:
        try:
            crew = self._builder.build(plan)
        except BrokenGroupError as problem:
            # The coordinator notices who is missing, and makes another plan.
            _log.warning("formation %d is not built: %s", plan.formation, problem)
            return
        self._put(plan, crew)

    def _put(self, plan: MemberPlan, crew: Crew | None) -> None:
        with self._change:
            before = self._ready
            late = plan.formation < self._seen or not self._follows(plan)
            if not late:
                self._ready = (plan, crew)
            self._change.notify_all()
        dropped = crew if late else (before[1] if before else None)
        if dropped is not None:
            dropped.close()
