"""Starts shims quickly, sharing nothing with them but a pipe."""

import os
import signal
import sys
from pathlib import Path

from muster.executors.local import shim
from muster.executors.local.identity import ProcessIdentity, identify

PROGRAM = str(Path(shim.__file__).absolute())

NEEDED = ("LD_LIBRARY_PATH",)
"""What the interpreter may need to load. The task does not get it."""


def spawn(folder: Path) -> tuple[ProcessIdentity, int]:
    """Start a shim for a task's folder; return it and a pipe that closes when the folder has news."""
    # -I -S: independent of the user's variables and installed packages; starts in 25 ms.
    command = [sys.executable, "-I", "-S", PROGRAM, str(folder)]
    environ = {name: os.environ[name] for name in NEEDED if name in os.environ}
    news, held = os.pipe()
    try:
        pid = os.posix_spawn(
            sys.executable,
            command,
            environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, held, 1),
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
            # Signals to the manager's group, such as Ctrl-C, are not for tasks.
            setsid=True,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    except OSError:
        os.close(news)
        raise
    finally:
        os.close(held)
    return identify(pid), news
