"""Between two steps, members fetch parameters and pieces of the optimiser's state from each other.

A *sync point* names such a pause: the beginning of a formation, or a checkpoint within it. A request is
answered when the other member has reached the same sync point. So nothing of an earlier formation
reaches a later one.
"""

import contextlib
import socket
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.runtime.comm.stream import receive_into, receive_json, send_json, send_tensor
from muster.runtime.errors import BrokenGroupError
from muster.runtime.members.peers import PeerServer, connect
from muster.runtime.shards.ownership import OwnedRange, Range
from muster.runtime.shards.shard_updater import ShardUpdater
from muster.runtime.shards.state_pieces import Piece, receive_pieces, send_pieces
from muster.runtime.state.hyper import hyper_of, set_hyper
from muster.runtime.state.rest import rest_of, set_rest
from muster.runtime.state.state import TrainingState
from muster.runtime.state.tree import receive_tree, send_tree


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """A pause of a formation; its members all give it the same name."""

    formation: int
    name: str


@dataclass(frozen=True, slots=True)
class ShardMap:
    """Who keeps which part of the optimiser's state, and the addresses of those that still have it."""

    holdings: tuple[OwnedRange, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def packed(self) -> dict[str, Any]:
        held = [[h.range.tensor, h.range.begin, h.range.end, h.owner, h.mirror] for h in self.holdings]
        return {"holdings": held, "sources": dict(self.sources)}

    @classmethod
    def unpacked(cls, packed: dict[str, Any]) -> "ShardMap":
        held = [
            OwnedRange(Range(b, i, j), owner, mirror) for b, i, j, owner, mirror in packed["holdings"]
        ]
        return cls(tuple(held), packed["sources"])


class StateServer:
    """Answers peers while this task's state does not change."""

    def __init__(self, peers: PeerServer, state: TrainingState) -> None:
        self._state = state
        self._change = threading.Condition()
        self._moment: SyncPoint | None = None
        self._over = 0
        """Formations up to this one are over: requests for them fail."""
        self._told: dict[str, Any] = {}
        self._extras: Any = None
        self._updater: ShardUpdater | None = None
        self._served: set[socket.socket] = set()
        peers.on("whole", self._send_whole)
        peers.on("pieces", self._send_pieces)

    def begin(self, moment: SyncPoint, updater: ShardUpdater, shards: ShardMap | None = None) -> None:
        """Freeze the state; `shards`: what joiners are told."""
        with self._change:
            if shards is not None:
                self._told = {**shards.packed(), "settings": hyper_of(self._state)}
                self._extras = rest_of(self._state)
            self._moment, self._updater = moment, updater
            self._change.notify_all()

    def end(self, over: int = 0) -> None:
        """Unfreeze the state; `over`: the last formation that is over.

        Whoever still waits or receives gets an error: its formation has failed.
        """
        with self._change:
            self._moment, self._over = None, max(self._over, over)
            for connection in self._served:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._change.notify_all()

    def _send_whole(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Send the shard map, settings, extras, and parameters if wanted (server's thread)."""
        with self._at(connection, request) as here:
            if not here:
                return
            told, extras = self._told, self._extras
        try:
            send_json(connection, told)
            send_tree(connection, extras)
            for parameter in self._state.parameters if request["parameters"] else ():
                send_tensor(connection, parameter)
        finally:
            self._forget(connection)

    def _send_pieces(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Send copies of the state of some ranges (server's thread)."""
        with self._at(connection, request) as here:
            if not here or self._updater is None:
                return
            pieces = self._updater.state_of([Range(*range_) for range_ in request["ranges"]])
        try:
            send_pieces(connection, pieces)
        finally:
            self._forget(connection)

    @contextlib.contextmanager
    def _at(self, connection: socket.socket, request: dict[str, Any]) -> Any:
        """Hold the lock at the requested sync point; False if it is over or not reached."""
        moment, timeout = SyncPoint(*request["moment"]), float(request["timeout"])
        connection.settimeout(timeout)
        with self._change:
            self._served.add(connection)
            self._change.wait_for(
                lambda: self._moment == moment or self._over >= moment.formation, timeout
            )
            here = self._moment == moment
            if not here:
                self._served.discard(connection)
            yield here

    def _forget(self, connection: socket.socket) -> None:
        with self._change:
            self._served.discard(connection)


class StateClient:
    """Asks peers for their state."""

    def __init__(self, moment: SyncPoint, token: str, deadline: float) -> None:
        self._request = {"moment": [moment.formation, moment.name], "timeout": deadline}
        self._token, self._deadline = token, deadline

    def whole(self, address: str, state: TrainingState, parameters: bool) -> ShardMap:
        """Fetch settings, extras and, if wanted, parameters; return the shard map."""
        with self._asked(address, {"kind": "whole", "parameters": parameters}) as connection:
            told = receive_json(connection)
            extras = receive_tree(connection)
            for parameter in state.parameters if parameters else ():
                receive_into(connection, parameter)
        set_hyper(state, told["settings"])
        set_rest(state, extras)
        return ShardMap.unpacked(told)

    def pieces(self, address: str, ranges: Iterable[Range]) -> list[Piece]:
        """Fetch the state of some ranges."""
        wanted = [[range_.tensor, range_.begin, range_.end] for range_ in ranges]
        with self._asked(address, {"kind": "pieces", "ranges": wanted}) as connection:
            return receive_pieces(connection)

    @contextlib.contextmanager
    def _asked(self, address: str, request: dict[str, Any]) -> Any:
        try:
            with connect(address, {**self._request, **request}, self._token, self._deadline) as found:
                yield found
        except (OSError, ValueError) as problem:
            raise BrokenGroupError(f"{address} does not send its state: {problem}") from problem
