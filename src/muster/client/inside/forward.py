"""Ports of a task's node, reached at ports of this machine."""

import contextlib
import socket
import threading
from collections.abc import Callable
from itertools import count

from muster.client.errors import ClientError
from muster.client.inside.visit import VisitConnection, VisitOutcome
from muster.wire.visits.frames import StreamNote
from muster.wire.visits.pump import Pump
from muster.wire.visits.visits import FIRST_FORWARDED

LOOPBACK = "127.0.0.1"


class Forward:
    """Connections to a local port go to a port of the task, as many at once as come.

    As a context manager it runs in a thread of its own; `serve` runs it in this one.
    """

    def __init__(
        self,
        visit: VisitConnection,
        port: int,
        local: int | None = None,
        tell: Callable[[str], None] = lambda words: None,
    ) -> None:
        """`local`: here; None: the same number, or another if that is taken; 0: any. `tell`: called
        when a connection fails."""
        self._visit, self._port, self._tell = visit, port, tell
        self._listening = _bound(port, local)
        self._streams = count(FIRST_FORWARDED)
        self._joined: dict[int, socket.socket] = {}
        self._outcome = VisitOutcome()
        self._pump = Pump(visit.socket, self._hear)
        self._pump.watch(self._listening.fileno(), self._accept)
        self._wake, self._woken = socket.socketpair()
        self._pump.watch(self._wake.fileno(), self._pump.abandon)
        self._thread = threading.Thread(target=self._pump.run, daemon=True)

    @property
    def local(self) -> int:
        """The port of this machine."""
        return int(self._listening.getsockname()[1])

    def serve(self) -> str:
        """Forward until the task or its connection ends; return why it did."""
        try:
            self._pump.run()
            if not self._outcome.told:
                self._outcome.result()
            return self._outcome.told[-1]
        finally:
            self._close()

    def __enter__(self) -> "Forward":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._woken.close()
        self._thread.join()
        self._close()
        self._visit.__exit__()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            taken, _ = self._listening.accept()
            self._joined = {n: each for n, each in self._joined.items() if each.fileno() >= 0}
            stream = next(self._streams)
            self._joined[stream] = taken
            self._pump.frames.note(what="open", stream=stream, port=self._port)
            self._pump.join(stream, taken)

    def _hear(self, note: StreamNote) -> None:
        record = note.record
        if record.get("what") == "failed":
            self._tell(str(record.get("why", "")))
            taken = self._joined.pop(int(record.get("stream", 0)), None)
            if taken is not None and taken.fileno() >= 0:
                self._pump.leave(taken.fileno())
                self._pump.forget(int(record["stream"]))
                taken.close()
        elif self._outcome.hear(note) or record.get("what") == "told":
            self._pump.stop()

    def _close(self) -> None:
        for each in (self._listening, self._wake, self._woken, *self._joined.values()):
            each.close()


def _bound(port: int, local: int | None) -> socket.socket:
    """Listen here: at the port asked for, else at the same number as there or, if taken, any."""
    wanted = (port, 0) if local is None else (local,)
    problem: OSError | None = None
    for number in wanted:
        try:
            return socket.create_server((LOOPBACK, number), backlog=64)
        except OSError as error:
            problem = error
    why = problem.strerror if problem else ""
    detail = f"cannot listen at {LOOPBACK}:{local}: {why}"
    raise ClientError(0, "Port Taken", detail, "choose another local port, or 0 for any")
