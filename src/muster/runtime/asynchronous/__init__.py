"""Asynchronous training with parameter servers (Optimus' other form): no barrier, no common steps.

Servers hold ranges of the parameters. A worker pulls them, computes the gradient of its mini-batch
(global batch over workers) and pushes it; servers apply it at once. So gradients may be stale (counted
and reported), the result depends on timing, and samples are used at least once per epoch, not exactly
once. With one worker it is plain training. BatchNorm statistics stay local. Workers may join, leave and
die at any time. A lost server loses its part of the parameters: an error names the checkpoint to
continue from.
"""

from collections.abc import Callable
from typing import Any

from muster.runtime.asynchronous.batches import LeasedBatches
from muster.runtime.asynchronous.protocol import PATIENCE, assign, checksum
from muster.runtime.asynchronous.server import ParameterServer, Shard, serve
from muster.runtime.asynchronous.worker import AsyncReport, AsyncWorker, Forward, Save
from muster.runtime.data.loader import Loader
from muster.runtime.data.samples import Order, Position
from muster.runtime.errors import BadTrainingError, LostServerError
from muster.runtime.members.peers import PeerServer

__all__ = [
    "AsyncReport",
    "AsyncWorker",
    "LeasedBatches",
    "LostServerError",
    "serve",
    "train_asynchronously",
]


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
    index: int = 0,
    workers: int = 1,
    peers: PeerServer | None = None,
    token: str = "",
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
    if epochs is None and steps is None and until is None:
        raise BadTrainingError("when does it end? give epochs, steps or until")
    if not servers:
        raise BadTrainingError("an asynchronous training needs at least one server")
    Order(len(dataset), batch)  # checks both
    order = Order(len(dataset), max(1, batch // workers), seed, shuffle, drop_last)
    if role == "worker":
        loader = Loader(dataset, collate, 0, seed, augment)
        worker = AsyncWorker(
            model, optimizer, forward, loader, order, servers, token,
            place=place, save=save, checkpoint=checkpoint, on_step=on_step,
        )  # fmt: skip
        return worker.run()
    if peers is None:
        raise BadTrainingError("a server needs peers=")
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
