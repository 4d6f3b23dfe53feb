"""`muster down`: stops the daemon of a folder, and waits for it."""

import os
import signal
import time
from pathlib import Path

import typer

from muster.app.daemon_folder import holder
from muster.cli.exits import NOT_FINISHED, NOT_REACHABLE
from muster.cli.parse import seconds_of
from muster.cli.render.terminal import complain

_LOOK = 0.05


def run_down(folder: Path, timeout: str) -> int:
    """Send SIGTERM to the daemon of the folder; the exit code says whether it stopped in time."""
    limit = seconds_of("--timeout", timeout)
    pid = holder(folder)
    if pid is None:
        complain(f"no daemon is running in {folder}; start one with `muster up`")
        return NOT_REACHABLE
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + limit
    while holder(folder) == pid:
        if time.monotonic() >= deadline:
            complain(f"the daemon (process {pid}) is still stopping")
            return NOT_FINISHED
        time.sleep(_LOOK)
    typer.echo("Stopped. Jobs keep running; the next `muster up` reattaches.")
    return 0
