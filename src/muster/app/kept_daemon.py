"""A daemon that outlives the process which started it."""

import subprocess
import sys
from pathlib import Path

from muster.app.daemon_folder import read_status
from muster.client.client import Client
from muster.client.connecting.settings import UNIX
from muster.client.errors import ClientError

_COMMAND = "from muster.cli.main import main; main()"


def kept_daemon(devices: int | None, policy: str, data: Path) -> Client:
    """Return a client of the daemon of a folder, which is started if none runs."""
    status = read_status(data)
    if status is None or not _answers(_client(data)):
        _start(devices, policy, data)
    return _client(data)


def _start(devices: int | None, policy: str, data: Path) -> None:
    words = ["up", "--detach", "--data", str(data), "--policy", policy, "--port", "0"]
    words += [] if devices is None else ["--devices", str(devices)]
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ClientError(0, "No Daemon", done.stderr.strip() or "the daemon did not start")


def _client(data: Path) -> Client:
    """Return a client of the folder's daemon, by the socket that it has said."""
    status = read_status(data)
    listening = status.listening if status is not None else None
    if listening is None:
        return Client()
    return Client(f"{UNIX}{listening.socket}" if listening.socket else listening.url)


def _answers(client: Client) -> bool:
    try:
        client.status()
    except ClientError:
        return False
    return True
