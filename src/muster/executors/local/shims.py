"""Starts shims quickly, sharing nothing with them but a pipe."""

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

from muster.executors.local.identity import ProcessIdentity
from muster.executors.local.shim import boot_id

PROGRAM = str(Path(__file__).with_name("shim_server.py").absolute())

NEEDED = ("LD_LIBRARY_PATH",)
"""What the interpreter may need to load. The task does not get it."""
TITLE = "-" * 1024
"""Takes up room for the command line that a shim shows: its task's folder."""
ANSWER = 10.0
"""s for the server to fork: some ms, unless somebody has stopped it."""
ATTEMPTS = 2
"""The first may find that the server was killed."""
LONGEST = 64
"""Bytes of an answer."""


class Shims:
    """Forks shims by a server, which is started when the first is needed. One thread alone."""

    def __init__(self) -> None:
        self._door: socket.socket | None = None
        self._pid = 0

    def start(self, folder: Path) -> tuple[ProcessIdentity, int]:
        """Start a shim for a task's folder; return it and a pipe that closes when the folder has
        news."""
        news, held = os.pipe()
        try:
            return self._ask(os.fsencode(folder), held), news
        except OSError:
            os.close(news)
            raise
        finally:
            os.close(held)

    def prepare(self) -> None:
        """Start the server before the first shim is needed."""
        if self._door is None:
            self._door, self._pid = _started()

    def close(self) -> None:
        """End the server; its shims go on."""
        if self._door is not None:
            self._door.close()
            self._door = None
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)  # also one that was stopped
                os.waitpid(self._pid, 0)

    def _ask(self, folder: bytes, pipe: int) -> ProcessIdentity:
        for attempt in range(ATTEMPTS):
            self.prepare()
            assert self._door is not None
            try:
                socket.send_fds(self._door, [folder], [pipe])
                answer = self._door.recv(LONGEST)
            except OSError:
                answer = b""
            if answer:
                return _identity(answer.decode())
            # One that forks after all finds the order claimed, or claims it before the next.
            self.close()
            if attempt + 1 == ATTEMPTS:
                break
        raise OSError("the shim server does not answer")


def _identity(answer: str) -> ProcessIdentity:
    pid, number = answer.split()
    if pid == "-":
        raise OSError(int(number), os.strerror(int(number)))
    return ProcessIdentity(int(pid), int(number), boot_id())


def _started() -> tuple[socket.socket, int]:
    """Start a server; return the socket to it and its pid."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # -I -S: independent of the user's variables and installed packages.
    command = [sys.executable, "-I", "-S", PROGRAM, TITLE]
    environ = {name: os.environ[name] for name in NEEDED if name in os.environ}
    try:
        pid = os.posix_spawn(
            sys.executable,
            command,
            environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            # Signals to the manager's group, such as Ctrl-C, are not for tasks.
            setsid=True,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    ours.settimeout(ANSWER)
    return ours, pid
