"""The terminal of an interactive task, held by its shim: people attach to it, and it outlives them.

Loaded by the shim of such a task alone, by its path. One person is attached at a time; who attaches
next takes over. What is printed also goes to the task's log. Without typing, output or computing for
its idle limit, the task is ended, after a warning.
"""

# ruff: noqa: E402, PTH100, PTH108, PTH118, PTH120, PTH123, PTH208

import contextlib
import fcntl
import os
import pty
import select
import signal
import socket
import sys
import termios
import threading
import time
from typing import Any

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
if _ROOT not in sys.path:
    sys.path.append(_ROOT)  # a shim is started without it

from muster.wire.visits.frames import StreamNote
from muster.wire.visits.pump import Pump, part
from muster.wire.visits.visits import INPUT, OUTPUT, set_size

TERMINAL = "terminal.sock"
"""In the task's folder: who connects sends the descriptor of a visit's connection."""
KEPT = 64 * 2**10
"""Bytes of the last output, for who attaches next."""
TICKS = 20
"""Looks at idleness within the limit."""
LONGEST_TICK = 5.0
"""s between two of them."""
BUSY = 0.05
"""Cores above which a terminal's programs are not idle, whatever they print."""
WARNING, LONGEST_WARNING = 0.2, 300.0
"""Share of the idle limit, and s at most, by which the warning precedes the end."""
GRACE = 2.0
"""s between hanging up and killing; for the last output to be read."""
END_OF_INPUT, AGAIN = b"\x04", 1.0
"""Ctrl-D, and s between two: one that comes while a command runs is lost when a shell edits lines."""


class Terminal:
    """A pseudo-terminal, with a thread that reads it."""

    def __init__(self, account: dict[str, Any] | None, idle: float) -> None:
        """`idle`: s after which the task is ended; 0: never."""
        self._master, self._slave = pty.openpty()
        set_size(self._master, 24, 80)
        os.set_blocking(self._master, False)
        if account is not None:
            os.fchown(self._slave, account["uid"], account["gid"])
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(TERMINAL)
        self._door.listen(8)
        self._idle, self.idled = idle, False
        self._pid, self._log = 0, -1
        self._kept = bytearray()
        self._pump: Pump | None = None
        self._next: socket.socket | None = None
        self._over = False
        self._how: dict[str, Any] = {}
        self._known = threading.Event()
        self._thread = threading.Thread(target=self._hold, daemon=True)
        self._active, self._warned = time.monotonic(), False
        self._looked, self._spent = time.monotonic(), 0.0
        self._piped, self._line_begun = False, False

    # --- what the shim calls ---

    def take(self) -> None:
        """In the task's process, which leads its session: make it the terminal of that."""
        fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
        for stream in range(3):
            os.dup2(self._slave, stream)

    def hold(self, pid: int, log: int) -> None:
        """Hold the terminal of a task that has begun, and write what it prints to a log."""
        os.close(self._slave)
        self._pid, self._log = pid, log
        self._thread.start()

    def finish(self, how: dict[str, Any]) -> None:
        """Tell who is attached how the task ended, after its last words."""
        self._how = how
        self._known.set()
        self._thread.join(2 * GRACE)
        with contextlib.suppress(OSError):
            os.unlink(TERMINAL)

    # ---

    def _hold(self) -> None:
        while not self._over:
            connection = self._next or self._alone()
            self._next = None
            if connection is not None:
                with connection:
                    self._with(connection)
                    if self._over:  # how it ended must arrive
                        part(connection)

    def _alone(self) -> socket.socket | None:
        """Read the terminal until somebody attaches, or it is closed."""
        while not self._over:
            poll = select.poll()
            for descriptor in (self._master, self._door.fileno()):
                poll.register(descriptor, select.POLLIN)
            for descriptor, _ in poll.poll(self._tick * 1000 if self._idle else None):
                if descriptor == self._master:
                    self._read()
                elif (found := self._taken()) is not None:
                    return found
            self._look()
        return None

    def _read(self) -> None:
        try:
            self._saw(os.read(self._master, KEPT))
        except BlockingIOError:
            return
        except OSError:  # all have closed it
            self._over = True

    def _saw(self, data: bytes) -> bytes:
        """Keep what was printed."""
        self._act()
        self._kept += data
        del self._kept[:-KEPT]
        with contextlib.suppress(OSError):  # a full disk
            os.write(self._log, data)
        return data

    def _act(self) -> None:
        self._active, self._warned = time.monotonic(), False

    def _taken(self) -> socket.socket | None:
        """Accept a visit; None if it is gone already."""
        try:
            with self._door.accept()[0] as sender:
                sender.settimeout(GRACE)
                found = socket.recv_fds(sender, 1, 1)[1]
            return socket.socket(fileno=found[0]) if found else None
        except OSError:
            return None

    def _with(self, connection: socket.socket) -> None:
        """Serve who is attached, until they leave, another comes, or the terminal is closed."""
        self._act()
        pump = self._pump = Pump(connection, self._hear)
        pump.watch(self._door.fileno(), self._hand_over)
        pump.put(OUTPUT, bytes(self._kept))
        pump.feed(OUTPUT, self._master, tap=self._saw, ended=self._close)
        pump.drain(INPUT, self._master, came=self._typed, ended=self._end_input)
        self._look_again()
        pump.run()
        self._pump = None

    def _hear(self, note: StreamNote) -> None:
        record = note.record
        if record.get("what") == "begin":
            self._piped = "rows" not in record
        if record.get("what") in ("begin", "size"):
            set_size(self._master, record.get("rows"), record.get("columns"))

    def _typed(self, data: bytes) -> None:
        self._act()
        self._line_begun = not data.endswith(b"\n")

    def _end_input(self) -> None:
        """Nothing more comes from a pipe: what reads the terminal shall see an end. A person's terminal
        that is gone has only left."""
        if not self._piped or self._pump is None:
            return
        with contextlib.suppress(OSError):
            os.write(self._master, b"\n" if self._line_begun else END_OF_INPUT)
        self._pump.later(0.0 if self._line_begun else AGAIN, self._end_input)
        self._line_begun = False

    def _hand_over(self) -> None:
        """Let another one attach."""
        found = self._taken()
        if found is not None and self._pump is not None:
            self._next = found
            self._pump.frames.note(what="detached", why="attached elsewhere")
            self._pump.stop()

    def _close(self) -> None:
        """The terminal is closed: the task has ended, or is about to."""
        self._over = True
        self._known.wait(GRACE)
        if self._pump is not None:
            self._pump.frames.note(what="exit", **self._how)
            self._pump.stop()

    # --- idleness ---

    @property
    def _tick(self) -> float:
        return min(LONGEST_TICK, self._idle / TICKS)

    def _look_again(self) -> None:
        if self._idle and self._pump is not None:
            self._look()
            self._pump.later(self._tick, self._look_again)

    def _look(self) -> None:
        """Warn of the idle limit, and end the task at it."""
        if not self._idle or self.idled:
            return
        now = time.monotonic()
        if now - self._looked >= self._tick:
            self._count(now)
        left = self._active + self._idle - now
        if left <= 0:
            self.idled = True
            self._say(f"ended after {_words(self._idle)} without activity")
            self._end()
        elif left <= min(self._idle * WARNING, LONGEST_WARNING) and not self._warned:
            self._warned = True
            self._say(f"idle: the session ends in {_words(left)} unless you type something")

    def _count(self, now: float) -> None:
        """Take computing for activity."""
        spent = seconds_of_session(self._pid)
        if spent - self._spent > BUSY * (now - self._looked):
            self._act()
        self._looked, self._spent = now, spent

    def _say(self, words: str) -> None:
        line = f"\r\nmuster: {words}\r\n".encode()
        with contextlib.suppress(OSError):
            os.write(self._log, line)
        if self._pump is not None:
            self._pump.put(OUTPUT, line)

    def _end(self) -> None:
        """Hang up as a terminal does, and kill what does not care."""

        def send(number: int) -> None:
            with contextlib.suppress(OSError):
                os.killpg(self._pid, number)

        send(signal.SIGHUP)
        send(signal.SIGCONT)
        timer = threading.Timer(GRACE, send, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()


def seconds_of_session(leader: int) -> float:
    """Return the s of computing of all processes of a session."""
    ticks = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                # Fields 6 (session), 14 and 15 (user and system time) of proc(5); the first is 3.
                if int(fields[3]) == leader:
                    ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _words(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
