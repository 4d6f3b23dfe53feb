"""Notices that a member of a formation is gone while nobody waits for it in a collective.

A GPU's kernel that waits for a dead peer waits for ever, and whatever the main thread asks of the
device waits behind it. So a thread of its own watches, and breaks the group.
"""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable

from muster.runtime.comm.store import StoreClient
from muster.runtime.errors import BrokenGroupError

LOOK = 0.05
"""Seconds between two looks at the clock."""


class Watch:
    """Calls `broken` once, from its thread: a member has ended, or one waits past the deadline."""

    def __init__(self, store: StoreClient, broken: Callable[[str], None]) -> None:
        """Attend the meeting at a store for as long as this lives."""
        self._broken, self._deadline = broken, store.deadline
        self._since: float | None = None
        self._closed = threading.Event()
        try:
            self._connection = store.attend()
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem
        threading.Thread(target=self._look, name="muster-watch", daemon=True).start()

    def wait_from_now(self) -> None:
        """Begin or extend a wait for others: it may last as long as the deadline."""
        self._since = time.monotonic()

    def done(self) -> None:
        """End the wait."""
        self._since = None

    def close(self) -> None:
        """Leave the meeting, which ends it for the others; `broken` is not called any more."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _look(self) -> None:
        with self._connection:
            while not self._closed.is_set():
                readable, _, _ = select.select([self._connection], [], [], LOOK)
                since = self._since
                late = since is not None and time.monotonic() - since > self._deadline
                if (readable or late) and not self._closed.is_set():
                    words = f"no answer for {self._deadline:g} s" if late else "a member is gone"
                    self._broken(words)
                    return
