"""A daemon of the demo's own, in a folder of its own; gone at the end, with everything it started."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from muster.client import Client, ClientError
from muster.wire.api.records import LIVE

MUSTER = (sys.executable, "-c", "from muster.cli.main import main; main()")
"""The command of the very Python that runs the demo, wherever it is installed."""
GONE = 60.0
"""Seconds for jobs that are stopped to be gone: a worker says good-bye at its next step, one that is
just being started when it has loaded torch."""
LOOK = 0.2


class StageError(RuntimeError):
    """The daemon did not start."""


@contextlib.contextmanager
def stage(cluster: Path, policy: str, interval: str, keep: Path | None) -> Iterator[Client]:
    """A client of a daemon that lives as long as the block; `keep`: a folder that stays."""
    folder = Path(tempfile.mkdtemp(prefix="muster-demo-")) if keep is None else keep.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "MUSTER_HOME": str(folder)}
    for name in ("MUSTER_URL", "MUSTER_API_TOKEN"):  # another daemon's
        environ.pop(name, None)
    up = ("up", "-b", "--port", "0", "--cluster", str(cluster), "--policy", policy)
    try:
        _muster(environ, *up, "--interval", interval)
        with _client(folder) as client:
            yield client
    finally:
        with _undisturbed():
            _end_jobs(environ, up, folder)
            with contextlib.suppress(StageError):
                _muster(environ, "down")
            if keep is None:
                shutil.rmtree(folder, ignore_errors=True)


def _muster(environ: dict[str, str], *words: str) -> None:
    """Run a command of Muster's; StageError with what it says if it fails."""
    done = subprocess.run([*MUSTER, *words], env=environ, capture_output=True, text=True)
    if done.returncode:
        raise StageError(done.stderr.strip() or f"muster {words[0]} ended with {done.returncode}")


def _client(folder: Path) -> Client:
    from muster.client.connecting.settings import read_settings

    found = read_settings({"MUSTER_HOME": str(folder)})
    return Client(found.url, found.token)


def _end_jobs(environ: dict[str, str], up: tuple[str, ...], folder: Path) -> None:
    """Stop what still runs. Tasks outlive their daemon: one that is gone is started again to do it."""
    if not (folder / "client.json").exists():
        return  # it never began
    for again in (False, True):
        with contextlib.suppress(ClientError, httpx.HTTPError, StageError):
            if again:
                _muster(environ, *up)
            with _client(folder) as client:
                _stop_all(client)
                return


def _stop_all(client: Client) -> None:
    for job in client.jobs(statuses=LIVE):
        client.stop(job.number)
    deadline = time.monotonic() + GONE
    while any(True for _ in client.jobs(statuses=LIVE)) and time.monotonic() < deadline:
        time.sleep(LOOK)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """A second Ctrl-C must not leave processes behind."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
