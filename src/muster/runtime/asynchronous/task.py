"""One task of an asynchronous job: finds the servers in the plan, trains, reports."""

import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from muster.runtime.asynchronous.batches import LeasedBatches
from muster.runtime.asynchronous.protocol import PATIENCE, assign, checksum
from muster.runtime.asynchronous.server import ParameterServer, Shard, serve
from muster.runtime.asynchronous.worker import AsyncReport, AsyncWorker, Forward, Save
from muster.runtime.data.loader import Loader
from muster.runtime.data.samples import Order, Position
from muster.runtime.errors import BadTrainingError, LeftError
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.members.peers import PeerServer
from muster.runtime.settings import TaskSettings
from muster.runtime.shape.trace import mapped
from muster.runtime.state.checkpoint import Checkpoints, signature_of
from muster.runtime.state.state import TrainingState
from muster.wire.tasks.messages import (
    Changed,
    MemberPlan,
    Message,
    Ready,
    StepDone,
    Stop,
    TrainingEnded,
)


class AsyncTask:
    """Membership of an asynchronous job: plans only name the servers and the leavers."""

    def __init__(self, settings: TaskSettings, state: TrainingState, device: torch.device) -> None:
        self._settings, self._state, self._device = settings, state, device
        self._peers = PeerServer(settings.host, settings.token)
        self._link = CoordinatorLink(settings, self._peers.address, self._hear)
        self._change = threading.Condition()
        self._plan: MemberPlan | None = None
        self._leave = False
        self._began = time.monotonic()
        self._samples = 0

    def run(self, losses: Forward, checkpoints: Checkpoints | None, options: dict[str, Any]) -> None:
        """Train to the end; workers then have the servers' parameters, and servers exit."""
        restored = self._restore(checkpoints)
        self._peers.start()
        self._link.start()
        self._link.send(Ready(self._settings.task))
        plan = self._await_plan()
        servers = [m for m in plan.members if m.role == "server"]
        names = [m.task for m in servers]
        name = self._settings.task
        report = train_asynchronously(
            self._state.model,
            self._state.optimizer,
            losses,
            role=self._settings.role,
            servers=[m.address for m in servers],
            index=names.index(name) if name in names else 0,
            workers=len(plan.members) - len(servers),
            peers=self._peers,
            token=self._settings.token,
            place=lambda batch: mapped(batch, lambda tensor: tensor.to(self._device)),
            save=self._saver(checkpoints),
            checkpoint=checkpoints.where if checkpoints else "",
            position=restored,
            on_step=self._report,
            **options,
        )
        if isinstance(report, AsyncReport) and report.updates:
            self._state.loss = report.loss
        self._end("finished")
        if self._settings.role == "server":
            raise LeftError(0)

    def _await_plan(self) -> MemberPlan:
        with self._change:
            self._change.wait_for(lambda: self._plan is not None)
            plan = self._plan
        assert plan is not None
        if not any(member.role == "server" for member in plan.members):
            raise BadTrainingError(
                "asynchronous training needs parameter servers: start it with --servers 1"
            )
        return plan

    def _hear(self, message: Message) -> None:
        """Handle a plan (link's thread): it matters only to those it leaves out."""
        if isinstance(message, Stop):
            self._leave = True
        if not isinstance(message, MemberPlan):
            return
        tasks = tuple(member.task for member in message.members)
        with self._change:
            first, known = self._plan is None, self._settings.task in tasks
            self._leave |= not known and not first
            if known:
                self._plan = message
                self._change.notify_all()
        if known:
            self._link.formation = message.formation
            cause, words = ("start" if first else "plan"), "asynchronous"
            self._link.send(
                Changed(self._settings.task, message.formation, 0, tasks, 0.0, cause, sync=words)
            )

    def _report(self, report: AsyncReport) -> None:
        """Report an update; leave if asked to."""
        now = time.monotonic()
        samples, seconds = report.samples - self._samples, now - self._began
        where = (self._settings.task, self._formation, report.updates, 0)
        self._link.send(StepDone(*where, samples, report.loss, seconds, 0.0, 0.0, 0.0))
        self._began, self._samples = now, report.samples
        if self._leave:
            self._end("left")
            raise LeftError(0)

    @property
    def _formation(self) -> int:
        return self._plan.formation if self._plan else 0

    def _end(self, how: str) -> None:
        self._link.send(TrainingEnded(self._settings.task, self._formation, 0, how))
        self._link.flush(5.0)
        self._link.close()
        self._peers.close()

    def _saver(self, checkpoints: Checkpoints | None) -> Save | None:
        if checkpoints is None:
            return None
        signature = signature_of(self._state.model, self._state.optimizer)

        def save(step: int, state: dict[str, Any]) -> None:
            checkpoints.save(step, state, signature, wait=True)

        return save

    def _restore(self, checkpoints: Checkpoints | None) -> Position | None:
        signature = signature_of(self._state.model, self._state.optimizer)
        if checkpoints is None:
            return None
        checkpoints.take()
        found = checkpoints.latest(signature)
        if found is None:
            return None
        self._state.restore(found[1])
        return self._state.position


def train_asynchronously(
    model: Any,
    optimizer: Any,
    forward: Forward,
    dataset: Any,
    batch: int,
    epochs: int | None,
    role: str,
    servers: list[str],
    *,
    token: str,
    index: int = 0,
    workers: int = 1,
    peers: PeerServer | None = None,
    steps: int | None = None,
    until: Callable[[float], bool] | None = None,
    seed: int = 0,
    shuffle: bool = True,
    drop_last: bool = False,
    collate: Callable[[list[Any]], Any] | None = None,
    augment: bool = False,
    scheduler: Any = None,
    position: Position | None = None,
    place: Callable[[Any], Any] = lambda batch: batch,
    save: Save | None = None,
    save_every: int = 0,
    checkpoint: str = "",
    on_step: Callable[[AsyncReport], None] | None = None,
    patience: float = PATIENCE,
) -> AsyncReport | LeasedBatches | None:
    """Run this task's part until the training ends.

    `forward`: (model, batch) to one loss per sample. `batch`: of all initial `workers` together; each
    takes an equal part. `servers`: their addresses; `index`: which of them this server is, at `peers`.
    `steps`: mini-batches in total. `save`, `save_every`, `checkpoint`: how to write the state, after
    how many mini-batches, and the folder for error messages; to resume, restore model and optimiser in
    every task and pass `position`.

    Returns a worker's report, or the first server's leases (losses of epochs, repeated batches).
    """
    Order(len(dataset), batch)  # checks both
    order = Order(len(dataset), max(1, batch // workers), seed, shuffle, drop_last)
    if role == "worker":
        loader = Loader(dataset, collate, 0, seed, augment)
        worker = AsyncWorker(
            model, optimizer, forward, loader, order, servers, token,
            place=place, save=save, checkpoint=checkpoint, on_step=on_step,
        )  # fmt: skip
        return worker.run()
    assert peers is not None
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    shard = Shard(optimizer, parameters, assign(parameters, len(servers))[index], scheduler)
    leases = None
    if index == 0:
        leases = LeasedBatches(order, epochs=epochs, steps=steps, until=until, position=position)
    every = save_every if save is not None else 0
    server = ParameterServer(
        shard, checksum(parameters), leases, patience=patience, save_every=every, checkpoint=checkpoint
    )
    serve(server, peers, servers[1:] if index == 0 else [], token)
    return leases
