"""Sends the state to a joiner while the others train: tensor by tensor, over as many steps as needed.

From the beginning of a step to its update the donor's parameters do not change: a *window*, numbered by
the steps done. What is sent in window w contains w updates. A joiner is a member with weight zero: it
gets the same summed gradients, so it applies update k to whatever came in a window before k, and
nothing is sent twice or copied.
"""

import contextlib
import socket
import threading
from typing import Any

import torch

from muster.runtime.comm.stream import receive_into, receive_json, send_json, send_tensor
from muster.runtime.errors import BrokenGroupError
from muster.runtime.members.peers import connect
from muster.runtime.state.state import TrainingState


class Donor:
    """Sends the state to joiners, within windows."""

    def __init__(self, state: TrainingState) -> None:
        self._state = state
        self._change = threading.Condition()
        self._window: int | None = None
        self._shutting = False
        """The window is ending: only joiners that are owed a tensor still get one."""
        self._last = -1
        self._inside = 0
        """Tensors being sent."""
        self._owed: set[str] = set()
        """Joiners without a tensor in this window: each gets at least one."""
        self._joiners: dict[str, int] = {}
        """Joiner -> its next window."""
        self._settings: list[Any] = []
        self._extras = torch.empty(0, dtype=torch.uint8)
        self._closed = False
        self._rests: Any = None
        """The GPU event after which the state does not change."""

    def open(self, window: int) -> None:
        """Open a window; the state contains this many updates."""
        with self._change:
            self._window = self._last = window
            self._owed = {joiner for joiner, after in self._joiners.items() if after == window}
            if self._joiners:
                self._rests = _moment()
                # The forward pass may change buffers (BatchNorm), so copy them now.
                self._settings, self._extras = self._state.settings(), self._state.extras()
            self._change.notify_all()

    def await_joiners(self, count: int, seconds: float) -> None:
        """Wait for this many joiners, before the window in which they all get the state."""
        with self._change:
            if not self._change.wait_for(lambda: len(self._joiners) >= count, seconds):
                raise BrokenGroupError(f"only {len(self._joiners)} of {count} ask for the state")

    def shut(self) -> None:
        """Close the window before the state changes; wait for tensors being sent."""
        with self._change:
            self._shutting = True
            self._change.wait_for(lambda: not (self._inside or self._owed))
            self._window, self._shutting = None, False
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self._closed, self._window = True, None
            self._owed.clear()
            self._change.notify_all()

    def serve(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Send the state to one joiner (server's thread)."""
        joiner = str(request["task"])
        connection.settimeout(float(request["timeout"]))
        try:
            with self._change:
                # From the next window on: this one may lack settings and extras.
                first = self._joiners[joiner] = self._last + 1
                self._change.notify_all()
            send_json(connection, {"first": first, "count": len(self._state.parameters)})
            self._send_all(connection, joiner, first)
        finally:
            with self._change:
                self._joiners.pop(joiner, None)
                self._owed.discard(joiner)
                self._change.notify_all()

    def _send_all(self, connection: socket.socket, joiner: str, window: int) -> None:
        sent, count = 0, len(self._state.parameters)
        while sent < count:
            settings, extras = self._await(window)
            send_json(connection, {"window": window, "settings": settings})
            while sent < count and self._enter(window, joiner):
                try:
                    described, tensors = self._state.tensors_of(sent)
                    send_json(connection, described)
                    for tensor in tensors:
                        send_tensor(connection, self._in_host(tensor))
                    sent += 1
                finally:
                    self._leave(joiner)
            whole = sent == count
            send_json(connection, {"end": window, "extras": extras.numel() if whole else -1})
            if whole:
                send_tensor(connection, extras)
            window += 1

    def _in_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy beside the GPU's work, not behind it; nothing changes the state meanwhile."""
        if not tensor.is_cuda:
            return tensor
        stream = torch.cuda.Stream(tensor.device)
        if self._rests is not None:
            stream.wait_event(self._rests)
        with torch.cuda.stream(stream):
            host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            host.copy_(tensor, non_blocking=True)
        stream.synchronize()
        return host

    def _await(self, window: int) -> tuple[list[Any], torch.Tensor]:
        with self._change:
            self._change.wait_for(lambda: self._last >= window or self._closed)
            if self._closed:
                raise ConnectionError("the training has ended")
            return self._settings, self._extras

    def _enter(self, window: int, joiner: str) -> bool:
        with self._change:
            barred = self._shutting and joiner not in self._owed
            if self._window != window or barred:
                self._joiners[joiner] = window + 1
                return False
            self._inside += 1
            return True

    def _leave(self, joiner: str) -> None:
        with self._change:
            self._inside -= 1
            self._owed.discard(joiner)
            self._change.notify_all()


def _moment() -> Any:
    """Return an event after all queued GPU work."""
    if not torch.cuda.is_initialized():
        return None
    event = torch.cuda.Event()
    event.record()
    return event


class Joiner:
    """Receives the state from a donor in a thread, and tracks which updates it contains."""

    def __init__(
        self, state: TrainingState, task: str, donor: str, address: str, token: str, deadline: float
    ) -> None:
        self.donor = donor
        self._state = state
        self._change = threading.Condition()
        self._came: dict[int, int] = {}
        """Parameter -> the window it came in."""
        self._first: int | None = None
        self._ended = -1
        self._settings: dict[int, list[Any]] = {}
        self._complete: int | None = None
        self._error: str | None = None
        request = {"kind": "state", "task": task, "timeout": deadline}
        try:
            self._connection = connect(address, request, token, deadline)
        except OSError as problem:
            raise BrokenGroupError(f"{donor} does not send its state: {problem}") from problem
        self._thread = threading.Thread(target=self._receive, name="muster-joiner", daemon=True)
        self._thread.start()

    @property
    def complete(self) -> int | None:
        """The window in which the last of the state came."""
        with self._change:
            return self._complete

    def wait_complete(self) -> None:
        """Wait until everything has arrived."""
        with self._change:
            self._change.wait_for(lambda: self._complete is not None or self._error is not None)
            self._check()
            assert self._complete is not None
            self._state.set_settings(self._settings[self._complete])

    def before_update(self, update: int) -> list[int]:
        """Return the parameters to skip in this update: missing, or sent with it applied."""
        with self._change:
            self._change.wait_for(lambda: self._knows(update - 1) or self._error is not None)
            self._check()
            settings = self._settings.pop(update - 1, None)
            if settings is not None:
                self._state.set_settings(settings)
            every = range(len(self._state.parameters))
            return [i for i in every if self._came.get(i, update) > update - 1]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _knows(self, window: int) -> bool:
        """Whether everything of a window has arrived."""
        if self._first is None:
            return False
        return window < self._first or self._ended >= window or self._complete is not None

    def _check(self) -> None:
        if self._error is not None and self._complete is None:
            raise BrokenGroupError(f"{self.donor} stopped sending its state: {self._error}")

    def _receive(self) -> None:
        try:
            with self._connection:
                self._read_all()
        except Exception as problem:  # waiters must hear of any error
            with self._change:
                self._error = str(problem) or type(problem).__name__
                self._change.notify_all()

    def _read_all(self) -> None:
        hello = receive_json(self._connection)
        with self._change:
            self._first = int(hello["first"])
            self._change.notify_all()
        window = -1
        while True:
            frame = receive_json(self._connection)
            if "window" in frame:
                window = int(frame["window"])
                with self._change:
                    self._settings[window] = frame["settings"]
            elif "parameter" in frame:
                for tensor in self._state.room_for(frame):
                    receive_into(self._connection, tensor)
                with self._change:
                    self._came[int(frame["parameter"])] = window
            else:
                whole = frame["extras"] >= 0
                if whole:
                    extras = torch.empty(frame["extras"], dtype=torch.uint8)
                    receive_into(self._connection, extras)
                    self._state.set_extras(extras)
                with self._change:
                    self._ended = int(frame["end"])
                    self._complete = self._ended if whole else None
                    self._change.notify_all()
                if whole:
                    return
