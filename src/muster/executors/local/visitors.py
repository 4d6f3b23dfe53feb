"""Starts the process of a visit to a task (`visitor.py`)."""

import json
import os
import signal
import socket
import sys
from dataclasses import asdict
from pathlib import Path

from muster.executors.local.shims import NEEDED
from muster.wire.visits.visits import Visit

PROGRAM = str(Path(__file__).with_name("visitor.py").absolute())


def start_visitor(folder: Path, visit: Visit, connection: socket.socket) -> int:
    """Start it for a task's folder, and return its pid."""
    # -I -S: independent of the user's variables and installed packages.
    command = [sys.executable, "-I", "-S", PROGRAM, str(folder), json.dumps(asdict(visit))]
    return os.posix_spawn(
        sys.executable,
        command,
        {name: os.environ[name] for name in NEEDED if name in os.environ},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, connection.fileno(), 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )
