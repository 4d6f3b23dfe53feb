"""A person at a terminal: types into a command of their own, and sees a screen."""

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence

import pyte

LONG = 30.0
"""s for something to appear on the screen, on a busy machine."""


class Person:
    """Runs a command on a terminal of this size."""

    def __init__(
        self, command: Sequence[str], environ: dict[str, str], rows: int = 24, columns: int = 80
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self._pid, self._terminal = pty.fork()
        if not self._pid:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests in the background ignore Ctrl-C
            os.execvpe(command[0], list(command), {**environ, "TERM": "xterm"})
        self.resize(rows, columns)

    def __enter__(self) -> "Person":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._terminal)
        if self._pid:
            self._await_end(5.0)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._terminal, keys.encode())

    def resize(self, rows: int, columns: int) -> None:
        """Change the window's size."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def see(self, text: str) -> str:
        """Wait until a text is on the screen; return the screen."""
        limit = time.monotonic() + LONG
        while text not in (shown := self.shown()):
            assert time.monotonic() < limit, f"never saw {text!r} on:\n{shown}"
            self._read()
        return shown

    def shown(self) -> str:
        """The screen as it is."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def code(self) -> int:
        """Wait for the command's end; its exit code."""
        limit = time.monotonic() + LONG
        while time.monotonic() < limit:
            self._read()
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError(f"it goes on:\n{self.shown()}")

    def _read(self) -> None:
        if select.select([self._terminal], [], [], 0.05)[0]:
            try:
                self._stream.feed(os.read(self._terminal, 65536))
            except OSError:  # the command has ended
                time.sleep(0.01)

    def _await_end(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if os.waitpid(self._pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)
