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
from muster.client.connecting.settings import kept_settings

_LOOK = 0.05


def last_daemon(usual: Path) -> Path:
    """Return the folder of the daemon that `muster up` started last, if it runs; else the usual one."""
    kept = kept_settings(needed=False)
    last = Path(kept.data) if kept is not None and kept.data else usual
    return usual if holder(usual) is not None or holder(last) is None else last


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
