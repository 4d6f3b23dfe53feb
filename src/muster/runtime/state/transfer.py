"""Sends the state to a joiner while the others train: tensor by tensor, over as many steps as needed.

From the beginning of a step to its update the donor's parameters do not change: a *window*, numbered by
the steps done. What is sent in window w contains w updates. A joiner is a member with weight zero: it
gets the same summed gradients, so it applies update k to whatever came in a window before k, and
nothing is sent twice or copied.

What does not change is sent before (`fixed.py`). What changes outside of updates (buffers, schedules,
what the user keeps) is copied at the opening of one more window, and the joiner takes it over at the
beginning of that step.
"""

import contextlib
import socket
import threading
from dataclasses import dataclass
from typing import Any

import torch

from muster.runtime.comm.stream import receive_into, receive_json, send_json, send_tensor
from muster.runtime.errors import BadTrainingError, BrokenGroupError, CannotJoinError
from muster.runtime.members.peers import PeerServer, connect
from muster.runtime.state.fixed import FixedSender, Stamp, receive_fixed, stamp
from muster.runtime.state.hyper import hyper_of, set_hyper
from muster.runtime.state.rest import fixed_of, rest_of, set_rest
from muster.runtime.state.state import Packed, TrainingState
from muster.runtime.state.tree import UnsendableError, copied, receive_tree, send_tree

KEPT = 4
"""Windows whose settings are kept: a joiner that takes part in every sum is one behind at most."""


@dataclass(eq=False)
class _Recipient:
    """One connection of a joiner; a joiner that asks again gets another."""

    window: int
    """The next in which it gets something."""
    owed: bool = False
    """It has no tensor in this window yet: it gets at least one."""
    last: int | None = None
    """The window of its last parameter: it gets the rest as of the next step."""
    served: bool = False
    """It gets nothing more in this window, even if it opens again, since its step is redone."""


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
        self._joiners: dict[str, _Recipient] = {}
        """By task; the latest connection of each."""
        self._fixed = FixedSender(self._in_host)
        self._getting: set[str] = set()
        """Joiners that are getting fixed tensors: they ask for the others afterwards."""
        self._stamps: dict[str, dict[str, Stamp]] = {}
        """Joiner -> stamps of the fixed tensors it has."""
        self._settings: dict[int, Packed] = {}
        """Hyper-parameters of the last updates, by the window before them."""
        self._at_once = False
        """All wait for joiners, so that this window's copy is good for all of them."""
        self._rest: tuple[Packed, Any] | None = None
        """Hyper-parameters and a copy of all that changes outside of updates, as of the last opening;
        None: not wanted."""
        self._closed = False
        self._rests: Any = None
        """The GPU event after which the state does not change."""

    def listen(self, peers: PeerServer) -> None:
        """Answer joiners at a task's post."""
        peers.on("fixed", self._serve_fixed)
        peers.on("state", self._serve)

    def open(self, window: int, whole: bool = False, between: bool = False) -> None:
        """Open a window; the state contains this many updates.

        `whole`: everybody waits until joiners have everything, so that the rest follows at once.
        `between`: two updates of one step, where the rest is in the middle of changing.
        """
        with self._change:
            self._window = self._last = window
            for each in self._joiners.values():
                # Who has all tensors waits for the rest: not before the next step begins.
                each.owed = each.window == window and each.last is None and not each.served
            self._rest, self._at_once = None, whole
            due = any(j.last is not None and j.last < window for j in self._joiners.values())
            if whole or (due and not between):
                # User code and the forward pass change it (BatchNorm), so copy it now.
                self._rest = hyper_of(self._state), copied(rest_of(self._state, self._changed()))
            if self._joiners:
                self._rests = _moment()  # after the copies, too
            self._change.notify_all()

    def await_joiners(self, count: int, seconds: float) -> None:
        """Wait for this many joiners, before the window in which they all get the state."""
        with self._change:
            while len(self._joiners) < count:
                # However long fixed tensors take; the connection knows when the other is silent.
                getting = len(self._getting)
                if not self._change.wait(seconds) and not getting:
                    raise BrokenGroupError(f"only {len(self._joiners)} of {count} ask for the state")

    def shut(self) -> None:
        """Close the window before the state changes; wait for tensors being sent."""
        with self._change:
            self._shutting, window = True, self._last
            if self._joiners:
                # Not as of the opening: a loop may set them before its update.
                before = {at: each for at, each in self._settings.items() if window - at < KEPT}
                self._settings = {**before, window: hyper_of(self._state)}
                self._change.notify_all()
            self._change.wait_for(lambda: not (self._inside or self._is_owing()))
            self._window, self._shutting = None, False
            self._change.notify_all()

    def close(self) -> None:
        with self._change:
            self._closed, self._window = True, None
            self._joiners.clear()
            self._change.notify_all()

    def _is_owing(self) -> bool:
        return any(each.owed for each in self._joiners.values())

    def _serve_fixed(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Send a joiner the tensors that do not change, at any time (server's thread)."""
        joiner = str(request["task"])
        connection.settimeout(float(request["timeout"]))
        with self._change:
            self._getting.add(joiner)
        try:
            stamps = self._fixed.send(connection, fixed_of(self._state))
            with self._change:
                self._stamps[joiner] = stamps
        finally:
            with self._change:
                self._getting.discard(joiner)
                self._change.notify_all()

    def _serve(self, connection: socket.socket, request: dict[str, Any]) -> None:
        """Send the state to one joiner (server's thread)."""
        joiner = str(request["task"])
        connection.settimeout(float(request["timeout"]))
        with self._change:
            # From the next window on: this one may lack settings, and the joiner's step has begun.
            first = max(self._last, int(request.get("begun", -1))) + 1
            recipient = self._joiners[joiner] = _Recipient(first)
            self._change.notify_all()
        try:
            hello = {"first": recipient.window, "count": len(self._state.parameters)}
            send_json(connection, hello)
            self._send_all(connection, recipient)
        except UnsendableError as problem:
            send_json(connection, {"refused": str(problem)})
        finally:
            self._forget(joiner, recipient)

    def _send_all(self, connection: socket.socket, recipient: _Recipient) -> None:
        """Send all trained parameters, window by window, and then the rest."""
        sent, count = 0, len(self._state.parameters)
        while True:
            window = recipient.window
            self._await_window(recipient)
            rest = self._due_rest(recipient)
            if rest is not None:
                break
            send_json(connection, {"window": window})
            while sent < count and self._enter(recipient):
                try:
                    described, tensors = self._state.tensors_of(sent)
                    send_json(connection, described)
                    for tensor in tensors:
                        send_tensor(connection, self._in_host(tensor))
                    sent += 1
                finally:
                    self._leave(recipient, whole=sent == count)
            settings = self._end(recipient)
            send_json(connection, {"end": window, "whole": sent == count, "settings": settings})
        send_json(connection, {"settings": rest[0]})
        send_tree(connection, rest[1], self._in_host)

    def _due_rest(self, recipient: _Recipient) -> tuple[Packed, Any] | None:
        """Return the rest if it is due in this window."""
        with self._change:
            window, last = recipient.window, recipient.last
            due = last is not None and (last < window or self._at_once) and window == self._last
            return self._rest if due else None

    def _end(self, recipient: _Recipient) -> Packed | None:
        """Go on to the next window, once it is known what the update after this one depends on."""
        with self._change:
            if self._at_once:
                return None  # all wait, and none updates
            window, recipient.owed, recipient.served = recipient.window, False, True
            self._change.notify_all()
            self._change.wait_for(
                lambda: window in self._settings or self._last > window or self._is_past(recipient)
            )
            recipient.window, recipient.served = window + 1, False
            return self._settings.get(window)

    def _forget(self, joiner: str, recipient: _Recipient) -> None:
        """Forget a joiner, unless it has asked again; drop the copy made for it."""
        with self._change:
            if self._joiners.get(joiner) is recipient:
                del self._joiners[joiner]
                self._stamps.pop(joiner, None)
            if not self._joiners:
                self._rest = None
            self._change.notify_all()

    def _changed(self) -> set[str]:
        """Return the fixed tensors that have changed since some joiner got them."""
        now = {name: stamp(tensor) for name, tensor in fixed_of(self._state).items()}
        sent = [self._stamps.get(joiner, {}) for joiner in self._joiners]
        return {name for stamps in sent for name in now if stamps.get(name) != now[name]}

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

    def _await_window(self, recipient: _Recipient) -> None:
        with self._change:
            self._change.wait_for(lambda: self._last >= recipient.window or self._is_past(recipient))
            if self._is_past(recipient):
                raise ConnectionError("the training has ended, or the joiner has asked again")

    def _is_past(self, recipient: _Recipient) -> bool:
        return self._closed or recipient not in self._joiners.values()

    def _enter(self, recipient: _Recipient) -> bool:
        with self._change:
            barred = self._shutting and not recipient.owed
            if self._window != recipient.window or barred or self._is_past(recipient):
                return False
            self._inside += 1
            return True

    def _leave(self, recipient: _Recipient, whole: bool) -> None:
        """Note that a tensor is sent; after the last, the rest is due."""
        with self._change:
            self._inside -= 1
            recipient.owed = False
            if whole:
                recipient.last = self._last
            self._change.notify_all()


def _moment() -> Any:
    """Return an event after all queued GPU work."""
    if not torch.cuda.is_initialized():
        return None
    event = torch.cuda.Event()
    event.record()
    return event


class Joiner:
    """Receives the state from a donor in a thread, and tracks which updates it contains.

    Trained parameters go to their places as they come. The rest is applied by the thread that trains,
    at the beginning of the step that it belongs to: user code may be changing the same objects.
    """

    def __init__(
        self, state: TrainingState, task: str, donor: str, address: str, token: str, deadline: float
    ) -> None:
        self.donor = donor
        self._state = state
        self._change = threading.Condition()
        self._asked = False
        """Whether the donor knows of this joiner; before, no window has anything for it."""
        self._window = -1
        """Of the step that was begun last."""
        self._came: dict[int, int] = {}
        """Parameter -> the window it came in."""
        self._first: int | None = None
        self._ended = -1
        self._settings: dict[int, Packed | None] = {}
        """Of updates, by the window before them."""
        self._last: int | None = None
        """The window of the last parameter; the rest is as of the next step. None: some are missing."""
        self._rest: tuple[Packed, Any] | None = None
        """Settings and everything else, to be applied then."""
        self._complete: int | None = None
        self._error: str | None = None
        self._refused = ""
        self._closed = self._reaching = False
        self._there = address, {"task": task, "timeout": deadline}, token, deadline
        try:
            self._connection = self._reach("fixed")
        except OSError as problem:
            raise BrokenGroupError(f"{donor} does not send its state: {problem}") from problem
        self._thread = threading.Thread(target=self._receive, name="muster-joiner", daemon=True)
        self._thread.start()

    @property
    def complete(self) -> int | None:
        """The window as of which this task has the whole state."""
        with self._change:
            return self._complete

    def wait_complete(self) -> None:
        """Wait until everything has arrived, at the very start."""
        with self._change:
            self._change.wait_for(lambda: self._last is not None or self._has_failed())
            self._check()
            assert self._last is not None
        try:
            self._take_over(self._last)
        except CannotJoinError as problem:
            raise BadTrainingError(str(problem)) from problem  # there is no training to join yet

    def settle(self, window: int) -> None:
        """At the beginning of a step, take over the rest if it is due."""
        with self._change:
            self._window = window
            due = self._last is not None and self._last < window
            if not due or self._complete is not None:
                return
        self._take_over(window)

    def _take_over(self, window: int) -> None:
        with self._change:
            self._change.wait_for(lambda: self._rest is not None or self._has_failed())
            self._check()
            assert self._rest is not None
            settings, rest = self._rest
            self._complete, self._rest = window, None
        set_hyper(self._state, settings)
        set_rest(self._state, rest)

    def learn(self, update: int) -> None:
        """Take over the hyper-parameters of an update."""
        with self._change:
            self._change.wait_for(lambda: self._knows(update - 1) or self._has_failed())
            self._check()
            settings = self._settings.get(update - 1)
            if settings is not None and self._complete is None:
                set_hyper(self._state, settings)

    def before_update(self, update: int) -> list[int]:
        """Return the parameters to skip in this update: missing, or sent with it applied."""
        self.learn(update)
        with self._change:
            every = range(len(self._state.parameters))
            return [i for i in every if self._came.get(i, update) > update - 1]

    def close(self) -> None:
        with self._change:
            self._closed = True
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            if self._reaching:
                return  # it waits for a donor that may hang, and has nothing to write
        self._thread.join()

    def _knows(self, window: int) -> bool:
        """Whether everything of a window has arrived."""
        if not self._asked:
            return True
        if self._first is None:
            return False
        return window < self._first or self._ended >= window or self._complete is not None

    def _has_failed(self) -> bool:
        return self._error is not None or bool(self._refused)

    def _check(self) -> None:
        if self._refused:
            raise CannotJoinError(self._refused)
        if self._error is not None and self._rest is None and self._complete is None:
            raise BrokenGroupError(f"{self.donor} stopped sending its state: {self._error}")

    def _receive(self) -> None:
        try:
            with self._connection:
                receive_fixed(self._connection, fixed_of(self._state))
            self._ask()
            with self._connection:
                self._read_all()
        except CannotJoinError as problem:
            self._fail(refused=str(problem))
        except Exception as problem:  # waiters must hear of any error
            self._fail(str(problem) or type(problem).__name__)

    def _fail(self, error: str | None = None, refused: str = "") -> None:
        with self._change:
            self._error, self._refused = error, refused
            self._change.notify_all()

    def _reach(self, kind: str, **more: object) -> socket.socket:
        address, request, token, deadline = self._there
        return connect(address, {**request, **more, "kind": kind}, token, deadline)

    def _ask(self) -> None:
        """Ask for what changes."""
        with self._change:
            self._asked = self._reaching = True
            begun = self._window
        found = self._reach("state", begun=begun)
        with self._change:
            self._connection, self._reaching = found, False
            if self._closed:
                found.close()
                raise ConnectionError("closed")

    def _read_all(self) -> None:
        hello = receive_json(self._connection)
        with self._change:
            self._first = int(hello["first"])
            self._change.notify_all()
        window = -1
        while self._rest is None:
            frame = receive_json(self._connection)
            if "refused" in frame:
                raise CannotJoinError(frame["refused"])
            if "window" in frame:
                window = int(frame["window"])
            elif "parameter" in frame:
                for tensor in self._state.room_for(frame):
                    receive_into(self._connection, tensor)
                with self._change:
                    self._came[int(frame["parameter"])] = window
                    self._change.notify_all()
            elif "end" in frame:
                with self._change:
                    self._ended = int(frame["end"])
                    self._settings[self._ended] = frame["settings"]
                    self._settings.pop(self._ended - KEPT, None)
                    self._last = self._ended if frame["whole"] else None
                    self._change.notify_all()
            else:
                self._take_rest(frame["settings"], receive_tree(self._connection))
                return

    def _take_rest(self, settings: Packed, rest: Any) -> None:
        with self._change:
            self._rest = settings, rest
            self._change.notify_all()
