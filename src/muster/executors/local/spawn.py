"""Starts a shim: quickly, and with nothing of this process but a pipe to hang up."""

import os
import signal
import sys
from pathlib import Path

from muster.executors.local import shim
from muster.executors.local.identity import ProcessIdentity, identify

PROGRAM = str(Path(shim.__file__).absolute())

NEEDED = ("LD_LIBRARY_PATH",)
"""What the manager's own interpreter may need to be loaded at all. The task does not get it."""


def spawn(folder: Path) -> tuple[ProcessIdentity, int]:
    """A shim for a task's folder, and the end of a pipe that hangs up once there is news in it."""
    # -I -S: neither the user's variables nor installed packages have a say; it starts in 25 ms.
    command = [sys.executable, "-I", "-S", PROGRAM, str(folder)]
    environ = {name: os.environ[name] for name in NEEDED if name in os.environ}
    told, tell = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            command,
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, tell, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            # At once: what is meant for the manager's group, such as a Ctrl-C, is not for tasks.
            setsid=True,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    except OSError:
        os.close(told)
        raise
    finally:
        os.close(tell)
    return identify(pid), told
