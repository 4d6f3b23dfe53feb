"""A child process at the other end of a socket pair."""

import socket
import subprocess
import sys
from contextlib import suppress

from muster.daemon.planners.line import MessageLine
from muster.model.view import View


class ChildProcess:
    """`python -m MODULE FD`, and the view that it was last sent. It ends when its line is closed, and
    so with whoever started it."""

    def __init__(self, module: str, setup: bytes) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # In a session of its own: an interrupt at the terminal is for the daemon, which hangs up.
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._line = MessageLine(ours)
        self._line.send(setup)
        self._ready = False
        self.seen: View | None = None
        """What it knows."""

    def is_ready(self, within: float = 0.0) -> bool:
        """Whether it has started; waits for so long."""
        if not self._ready and (within or self._line.has_message()):
            self._line.receive(within or None)
            self._ready = True
        return self._ready

    def ask(self, view: View, messages: tuple[bytes, ...], within: float) -> None:
        """Send it a question about a view."""
        self._line.send(*messages, within=within)
        self.seen = view

    def has_answered(self) -> bool:
        """Whether an answer has begun to come."""
        return self._line.has_message()

    def fileno(self) -> int:
        """Return the descriptor of its line, to wait for several of them."""
        return self._line.fileno()

    def receive(self, within: float) -> bytes:
        """Wait for an answer."""
        return self._line.receive(within)

    def end(self) -> None:
        """Hang up and end it, whatever it does."""
        self._line.close()
        self.process.kill()
        with suppress(OSError):
            self.process.wait()
