"""A worker of an asynchronous training: pulls, computes a gradient on leased samples, pushes."""

import contextlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from muster.runtime.asynchronous.protocol import START, assign, checksum, join, lost
from muster.runtime.comm.stream import receive_into, receive_json, send_json, send_tensor
from muster.runtime.data.loader import Loader
from muster.runtime.data.samples import Order, Position
from muster.runtime.errors import BadTrainingError
from muster.runtime.members.peers import Request
from muster.runtime.shards.state_pieces import Piece, assemble, receive_pieces
from muster.runtime.state.state import TrainingState

Forward = Callable[[Any, Any], Tensor]
"""(model, batch) to one loss per sample."""
Save = Callable[[int, dict[str, Any]], None]
"""(step, state) to a checkpoint."""


@dataclass(slots=True)
class AsyncReport:
    """One worker's counts."""

    updates: int = 0
    samples: int = 0
    loss: float = 0.0
    """Mean of its last mini-batch."""
    staleness: int = 0
    """Updates by others between its pulls and pushes, in total (of the worst server)."""
    stalest: int = 0
    """The largest of them."""


class AsyncWorker:
    """Trains with parameter servers; other workers may come and go."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        forward: Forward,
        loader: Loader,
        order: Order,
        servers: Sequence[str],
        token: str,
        *,
        place: Callable[[Any], Any] = lambda batch: batch,
        save: Save | None = None,
        checkpoint: str = "",
        on_step: Callable[[AsyncReport], None] | None = None,
    ) -> None:
        """`order`: as on the servers; its batch is one lease. `place`: moves a batch to the device."""
        self._state, self._forward, self._place = TrainingState(model, optimizer), forward, place
        self._loader, self._order, self._on_step = loader, order, on_step
        self._servers, self._token = list(servers), token
        self._save, self._checkpoint = save, checkpoint
        self._parameters = self._state.parameters
        self._segments = assign(self._parameters, len(servers))
        self._host = [_flat_in_host(parameter) for parameter in self._parameters]
        self._links: list[socket.socket] = []
        self._versions = [0] * len(servers)
        self._at = ""
        self.report = AsyncReport()

    def run(self) -> AsyncReport:
        """Train to the end; the model then has the servers' parameters."""
        wait, before = START, -1
        try:
            while True:
                self._connect(wait)
                try:
                    self._train()
                    return self.report
                except OSError as problem:
                    # We may have been silent for too long ourselves: retry, unless that did not help.
                    if self.report.updates == before:
                        raise lost([self._at], self._checkpoint, problem) from problem
                    wait, before = 0.0, self.report.updates
        finally:
            self._close()

    def _connect(self, wait: float) -> None:
        self._close()
        model = checksum(self._parameters)
        missing: dict[str, OSError] = {}
        for address in self._servers:
            try:
                self._links.append(join(address, "worker", model, self._token, wait))
            except OSError as problem:
                missing[address] = problem
        if missing:  # all of them: the first one also ends when it has lost another
            raise lost(list(missing), self._checkpoint, next(iter(missing.values())))

    def _train(self) -> None:
        nothing: Request = {"done": None, "losses": 0.0, "samples": 0}
        done, ended = nothing, False
        while not ended:
            self._say(0, {"op": "lease", **done})
            answer = self._hear(0)
            done, ended = nothing, answer.get("end", False)
            if answer["save"] is not None and self._save is not None:
                self._save_all(self._save, answer["save"])
            if "lease" in answer:
                number, *at = answer["lease"]
                done = {"done": number, **self._step(Position(*at))}
        self._pull()
        # The first server ends the training when all have gone, so it must hear of it last.
        for place in reversed(range(len(self._links))):
            self._say(place, {"op": "bye"})

    def _step(self, at: Position) -> Request:
        """Train on one lease; return its sum of losses and its samples."""
        ids = self._order.ids(at)
        batch = self._place(self._loader.load(ids, at.epoch))
        self._pull()
        for parameter in self._parameters:
            parameter.grad = None
        losses = self._forward(self._state.model, batch)
        total = _checked(losses, len(ids))
        losses.mean().backward()
        self._push()
        self.report.updates += 1
        self.report.samples += len(ids)
        self.report.loss = total / len(ids)
        if self._on_step is not None:
            self._on_step(self.report)
        return {"losses": total, "samples": len(ids)}

    def _pull(self) -> None:
        for place in range(len(self._links)):
            self._say(place, {"op": "pull"})
        for place in range(len(self._links)):
            self._versions[place] = self._receive_values(place)["version"]
        self._settle()

    def _push(self) -> None:
        unused = [i for i, parameter in enumerate(self._parameters) if parameter.grad is None]
        flats = [
            torch.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.reshape(-1)
            for p in self._parameters
        ]
        for place, segments in enumerate(self._segments):
            self._say(place, {"op": "push", "version": self._versions[place], "unused": unused})
            for segment in segments:
                send_tensor(self._links[place], flats[segment.tensor][segment.begin : segment.end])
        answers = [self._hear(place) for place in range(len(self._links))]
        staleness = max(answer["staleness"] for answer in answers)
        self.report.staleness += staleness
        self.report.stalest = max(self.report.stalest, staleness)

    def _save_all(self, save: Save, due: Request) -> None:
        """Save what the servers hold now; they need not be at the same update."""
        pieces: list[Piece] = []
        header: Request = {}
        for place in range(len(self._links)):
            self._say(place, {"op": "snapshot"})
            header = self._receive_values(place)
            pieces += receive_pieces(self._links[place])
        self._settle()
        self._state.set_settings(header["groups"])  # schedules run on the servers
        whole = {
            "model": self._state.model.state_dict(),
            "optimizer": assemble(self._state.optimizer, self._parameters, pieces),
            "scheduler": header["schedule"],
            "position": due["position"],
            "losses": 0.0,
        }
        save(due["step"], whole)

    def _receive_values(self, place: int) -> Request:
        header = self._hear(place)
        for segment in self._segments[place]:
            target = self._host[segment.tensor][segment.begin : segment.end]
            receive_into(self._links[place], target)
        return header

    def _settle(self) -> None:
        """Copy received values into parameters that are not flat in host memory."""
        with torch.no_grad():
            for parameter, flat in zip(self._parameters, self._host, strict=True):
                if flat.data_ptr() != parameter.data_ptr():
                    parameter.copy_(flat.view(parameter.shape))

    def _say(self, place: int, request: Request) -> None:
        self._at = self._servers[place]
        send_json(self._links[place], request)

    def _hear(self, place: int) -> Request:
        self._at = self._servers[place]
        return dict(receive_json(self._links[place]))

    def _close(self) -> None:
        for link in self._links:
            with contextlib.suppress(OSError):
                link.close()
        self._links.clear()


def _flat_in_host(parameter: Any) -> Tensor:
    """Return where a parameter is received: in place if possible, else a buffer."""
    if parameter.is_cpu and parameter.is_contiguous():
        return parameter.detach().view(-1)
    return torch.empty(parameter.numel(), dtype=parameter.dtype)


def _checked(losses: Any, count: int) -> float:
    """Return the sum of the losses, checking for one finite loss per sample."""
    if not isinstance(losses, Tensor) or losses.shape != (count,):
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise BadTrainingError(f'{count} samples need {count} losses (reduction="none"), not {shape}')
    total = float(losses.detach().sum())
    if not isfinite(total):
        raise BadTrainingError(f"the loss is {total}: nothing of this batch was applied")
    return total
