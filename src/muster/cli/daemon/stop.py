"""`muster down`: a daemon is told to stop, and is waited for."""

import os
import signal
import time
from pathlib import Path

import typer

from muster.cli.daemon.pid_file import holder
from muster.cli.exits import NOT_FINISHED, NOT_REACHABLE
from muster.cli.render.terminal import complain
from muster.cli.times import seconds_of

_LOOK = 0.05


def run_down(folder: Path, timeout: str) -> int:
    """SIGTERM to the daemon of the folder; the exit code says whether it is gone."""
    limit = seconds_of("--timeout", timeout)
    pid = holder(folder)
    if pid is None:
        complain(f"no daemon works in {folder}; start one with `muster up`")
        return NOT_REACHABLE
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + limit
    while holder(folder) == pid:
        if time.monotonic() >= deadline:
            complain(f"the daemon, process {pid}, is still stopping")
            return NOT_FINISHED
        time.sleep(_LOOK)
    typer.echo("stopped; what it started goes on, and the next `muster up` takes it up again")
    return 0
