"""What every child process of the daemon does first, and how it ends."""

import contextlib
import gc
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from muster.daemon.planners.line import HungUpError, MessageLine

GC_THRESHOLD = (7_000, 10, 100)
"""As the daemon's: a full collection takes 60 ms at 8,000 jobs and finds next to nothing."""


def stand_back(nice: int) -> None:
    """Let everything else on the machine go first, by this much."""
    os.nice(nice)
    # Where the kernel shares processors among sessions first (sched_autogroup), and every child has one
    # of its own, the niceness of processes only counts within each.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(f"{nice}\n", encoding="ascii")


def serve_until_hung_up(serve: Callable[[MessageLine], None]) -> None:
    """Serve the daemon at the other end of the socket given as the first argument."""
    gc.set_threshold(*GC_THRESHOLD)
    try:
        serve(MessageLine(socket.socket(fileno=int(sys.argv[1]))))
    except HungUpError:
        return
