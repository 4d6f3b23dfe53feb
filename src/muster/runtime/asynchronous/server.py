"""A parameter server of an asynchronous training: applies each gradient at once."""

import contextlib
import itertools
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from muster.runtime.asynchronous.batches import LeasedBatches
from muster.runtime.asynchronous.protocol import KIND, PATIENCE, START, join, lost
from muster.runtime.comm.stream import receive_into, receive_json, send_json, send_tensor
from muster.runtime.members.peers import PeerServer, Request
from muster.runtime.shards.ownership import Range
from muster.runtime.shards.shard_updater import SliceOptimizer, groups_of, options_of
from muster.runtime.shards.state_pieces import Piece, by_parameter, cuts, joined, pieces_of, send_pieces

WAIT = 1.0
"""Seconds until a worker hears that there is no lease yet: well below any timeout."""


class Shard:
    """One server's part of the parameters, with its optimiser state."""

    def __init__(
        self,
        optimizer: Any,
        parameters: Sequence[Any],
        segments: Sequence[Range],
        scheduler: Any = None,
    ) -> None:
        """Start from the current parameters and optimiser; `scheduler` steps with each update."""
        groups = groups_of(optimizer)
        state = by_parameter(pieces_of(optimizer, parameters, optimizer.state_dict()))
        self.segments = list(segments)
        self._optimizer, self._scheduler = optimizer, scheduler
        self._lock, self.version = threading.Lock(), 0
        # The user's optimiser only lends its hyper-parameters and never steps; schedules would warn.
        optimizer._opt_called = True
        self._values = [
            parameters[s.tensor].detach().reshape(-1)[s.begin : s.end].to("cpu", copy=True)
            for s in segments
        ]
        self._trained = [i for i, s in enumerate(segments) if id(parameters[s.tensor]) in groups]
        slices = []
        for segment in (segments[place] for place in self._trained):
            index, begin, end = segment.tensor, segment.begin, segment.end
            piece = joined(cuts(state.get(index, ()), begin, end), index, begin, end)
            slices.append((piece, groups[id(parameters[index])], parameters[index].dtype))
        self._slices = SliceOptimizer(optimizer, slices) if slices else None

    def read(self) -> tuple[int, list[Tensor]]:
        """Return the version and a copy of the parameters."""
        with self._lock:
            return self.version, [value.clone() for value in self._values]

    def snapshot(self) -> tuple[Request, list[Tensor], list[Piece]]:
        """Return version, hyper-parameters and schedule; parameters; optimiser state."""
        with self._lock:
            schedule = _carried(self._scheduler.state_dict()) if self._scheduler else None
            groups = [_carried(options) for options in options_of(self._optimizer)]
            header = {"version": self.version, "groups": groups, "schedule": schedule}
            held = self._slices.pieces() if self._slices else []
            pieces = [part for p in held for part in cuts([p], p.begin, p.end)]
            return header, [value.clone() for value in self._values], pieces

    def update(
        self, pulled: int, gradients: Sequence[Tensor], unused: Sequence[int]
    ) -> tuple[int, int]:
        """Apply gradients of version `pulled`; return the new version, and the updates since then."""
        with self._lock:
            if self._slices is not None:
                self._slices.step(
                    options_of(self._optimizer),
                    [self._target(place, unused) for place in self._trained],
                    [gradients[place] for place in self._trained],
                )
                self._slices.commit(unused)
            staleness = self.version - pulled
            self.version += 1
            if self._scheduler is not None:
                self._scheduler.step()
            return self.version, staleness

    def _target(self, place: int, unused: Sequence[int]) -> Tensor:
        """Return what the optimiser works on: the values, or a copy to throw away."""
        value = self._values[place]
        return value.clone() if self.segments[place].tensor in unused else value


class ParameterServer:
    """Serves one shard to any number of workers, a thread each."""

    def __init__(
        self,
        shard: Shard,
        model_checksum: int,
        leases: LeasedBatches | None = None,
        *,
        patience: float = PATIENCE,
        save_every: int = 0,
        checkpoint: str = "",
    ) -> None:
        """`leases`: on the first server. `patience`: s after which a silent worker counts as lost.
        `save_every`: leases between checkpoints; 0: none. `checkpoint`: their folder, for error
        messages."""
        self.shard, self.leases = shard, leases
        self.checksum, self._patience, self.checkpoint = model_checksum, patience, checkpoint
        self._every, self._saved = save_every, leases.done if leases else 0
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._workers: dict[int, socket.socket] = {}
        self._came = self._over = False
        self._problem: Exception | None = None

    def answer(self, connection: socket.socket, request: Request) -> None:
        """Serve one connection until it ends."""
        if request.get("checksum") != self.checksum:
            send_json(connection, {"error": "this task trains another model than the server"})
            return
        if self._problem is not None:
            send_json(connection, {"lost": str(self._problem)})
            return
        from_worker = request.get("role") == "worker"
        connection.settimeout(self._patience if from_worker else None)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        send_json(connection, {"version": self.shard.version})
        try:
            if from_worker:
                with self._counted(connection) as holder:
                    self._serve_worker(connection, holder)
            else:
                self._follow(connection)
        except OSError:
            pass  # a lost worker harms nobody; its lease was taken back
        except Exception as problem:
            self.fail(problem)

    def wait(self) -> None:
        """Wait until the training is over; raise what went wrong."""
        with self._changed:
            self._changed.wait_for(lambda: self._problem is not None or self._finished())
            if self._problem is not None:
                raise self._problem

    def fail(self, problem: Exception) -> None:
        """Fail the training: disconnect the workers, who learn why when they reconnect."""
        with self._changed:
            self._problem = self._problem or problem
            for connection in self._workers.values():
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.notify_all()

    def _finished(self) -> bool:
        """At least one worker must have come: it may want the result of an ended training."""
        ended = self.leases is not None and self.leases.ended
        return self._over or (ended and self._came and not self._workers)

    @contextlib.contextmanager
    def _counted(self, connection: socket.socket) -> Iterator[int]:
        """Register a worker; when it goes, its lease is granted to another."""
        holder = next(self._numbers)
        with self._changed:
            self._workers[holder], self._came = connection, True
        try:
            yield holder
        finally:
            if self.leases is not None:
                self.leases.lose(holder)
            with self._changed:
                del self._workers[holder]
                self._changed.notify_all()

    def _serve_worker(self, connection: socket.socket, holder: int) -> None:
        gradients = [torch.empty_like(value) for value in self.shard.read()[1]]
        while (request := receive_json(connection))["op"] != "bye":
            if request["op"] == "pull":
                version, values = self.shard.read()
                _send(connection, {"version": version}, values)
            elif request["op"] == "push":
                for gradient in gradients:
                    receive_into(connection, gradient)
                version, staleness = self.shard.update(request["version"], gradients, request["unused"])
                send_json(connection, {"version": version, "staleness": staleness})
            elif request["op"] == "snapshot":
                header, values, pieces = self.shard.snapshot()
                _send(connection, header, values)
                send_pieces(connection, pieces)
            elif request["op"] == "lease" and self.leases is not None:
                send_json(connection, self._lease(self.leases, request, holder))
            else:
                raise ConnectionError(f"a worker asked for {request['op']!r}")

    def _follow(self, connection: socket.socket) -> None:
        """Hold the first server's connection: if it breaks, the training is lost."""
        try:
            receive_json(connection)
        except OSError as problem:
            self.fail(lost(["0"], self.checkpoint, problem))
            return
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _lease(self, leases: LeasedBatches, request: Request, holder: int) -> Request:
        if request["done"] is not None:
            leases.finish(request["done"], request["losses"], request["samples"])
        answer: Request = {"save": self._save_due(leases)}
        lease = leases.take(holder, WAIT)
        if lease is None:
            return {**answer, "end": leases.ended}
        place = lease.place
        return {**answer, "lease": [lease.number, place.epoch, place.cursor, place.step]}

    def _save_due(self, leases: LeasedBatches) -> Request | None:
        """Let the first worker that asks write a checkpoint when due; the last is due at the end."""
        with self._changed:
            least = 1 if leases.ended else self._every
            if not self._every or leases.done < self._saved + least:
                return None
            self._saved = leases.done
        place = leases.position
        return {"step": leases.done, "position": [place.epoch, place.cursor, leases.done]}


def serve(server: ParameterServer, peers: PeerServer, others: Sequence[str], token: str) -> None:
    """Serve until the training is over. `others`: the other servers, on the first one."""
    links: list[socket.socket] = []
    try:
        for address in others:
            links.append(join(address, "server", server.checksum, token, START))
            threading.Thread(
                target=_watch, args=(server, links[-1], address), name="muster-server-link", daemon=True
            ).start()
        # Only now: a server that dies while workers train must be one that is watched.
        peers.on(KIND, server.answer)
        server.wait()
        for link in links:
            with contextlib.suppress(OSError):
                send_json(link, {"op": "end"})
    finally:
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)  # wakes the thread that watches it
            link.close()


def _watch(server: ParameterServer, link: socket.socket, address: str) -> None:
    """Wait for the end of a connection (own thread)."""
    try:
        receive_json(link)
    except OSError as problem:
        server.fail(lost([address], server.checkpoint, problem))


def _send(connection: socket.socket, header: Request, values: Sequence[Tensor]) -> None:
    send_json(connection, header)
    for value in values:
        send_tensor(connection, value)


def _carried(state: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a schedule's state that JSON can hold: numbers, not functions."""
    found = {}
    for name, value in state.items():
        with contextlib.suppress(TypeError, ValueError):
            found[name] = json.loads(json.dumps(value))
    return found
