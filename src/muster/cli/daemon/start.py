"""`muster up`: checks, the start in the foreground or the background, and what is said then."""

import errno
import subprocess
import sys
import time
from pathlib import Path

import typer

from muster.cli.daemon.commands import Listening, Up, UpOptions
from muster.cli.daemon.pid_file import TakenError
from muster.cli.exits import OTHER_FAILURE
from muster.cli.render.terminal import complain
from muster.cli.render.words import counted
from muster.cli.times import seconds_of
from muster.files.errors import InputError, one_of
from muster.policy.registry import POLICIES

_DETACHED = 60.0
"""Seconds for a daemon in the background to get ready: a journal of millions takes a few."""
_LOOK = 0.05
STANDBY = "standby: another daemon is in charge of the store"
"""What a daemon's log says while it waits for another's end."""
_TAIL = 20
"""Lines of its log that are shown where it fails."""


def refuse_both(
    *,
    devices: int | None,
    topology: str | None,
    cluster: Path | None,
    cert: Path | None,
    key: Path | None,
) -> None:
    """Options that contradict each other, or that are nothing alone."""
    given = {"--devices": devices, "--topology": topology, "--cluster": cluster}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise InputError.at(named[0], f"leaves no use for {named[1]}; give one of them")
    if (cert is None) != (key is None):
        missing, there = ("--tls-cert", "--tls-key") if cert is None else ("--tls-key", "--tls-cert")
        raise InputError.at(there, f"needs {missing} beside it")


def checked_policy(name: str) -> str:
    """The policy, if there is one of that name."""
    if name not in POLICIES:
        raise InputError.at("--policy", one_of(name, "policy", POLICIES))
    return name


def checked_interval(text: str) -> float:
    """Seconds above 0."""
    seconds = seconds_of("--interval", text)
    if seconds <= 0:
        raise InputError.at("--interval", "must be above 0; write for example 60s")
    return seconds


def run_up(start: Up, options: UpOptions, *, detach: bool) -> int:
    """Run the daemon until it is told to stop, or leave it running; the exit code."""
    if detach:
        return _left_running(options.data)
    try:
        start(options, lambda listening: typer.echo(announced(listening)))
    except TakenError as error:
        complain(f"{error}; stop it with `muster down`, or give another with --data")
        return OTHER_FAILURE
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            raise
        complain(
            f"cannot listen at {options.host}:{options.port}: {error.strerror}; give another --port"
        )
        return OTHER_FAILURE
    return 0


def announced(listening: Listening) -> str:
    """Where it listens, what it has, and what to type next."""
    types = ", ".join(listening.device_types) or "CPU"
    machines = f"{counted(listening.nodes, 'node')}, {listening.devices} devices ({types})"
    standby = "; standby: another daemon is in charge" if listening.role == "standby" else ""
    facts = {
        "cluster": f"{listening.cluster}: {machines}, policy {listening.policy}{standby}",
        "folder": str(listening.data),
        "token": "not needed" if listening.token_file is None else str(listening.token_file),
    }
    if listening.jobs:
        facts["jobs"] = f"{counted(listening.jobs, 'job')} taken up again"
    lines = [f"  {name:<9}{text}" for name, text in facts.items()]
    following = "next: muster run train.py · muster ps · muster top · muster down"
    return "\n".join([f"muster listens at {listening.url}", *lines, following])


def _left_running(data: Path) -> int:
    """Start the same command once more without `-d`, and stay until it has said that it is ready."""
    data.mkdir(parents=True, exist_ok=True)
    said, log = data / "daemon.out", data / "daemon.log"
    command = [word for word in sys.orig_argv if word not in ("-d", "--detach")]
    before = log.stat().st_size if log.exists() else 0
    with said.open("wb") as output, log.open("ab") as errors:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,  # Ctrl-C here, and the end of this terminal, are not for it
        )
    deadline = time.monotonic() + _DETACHED
    while child.poll() is None and time.monotonic() < deadline:
        if said.read_bytes().endswith(b"\n"):
            typer.echo(said.read_text(encoding="utf-8"), nl=False)
            return 0
        if STANDBY.encode() in log.read_bytes()[before:]:
            typer.echo(f"{STANDBY}; this one takes over when that is gone")
            return 0
        time.sleep(_LOOK)
    complain(f"the daemon did not get ready; its log is {log}:")
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]:
        typer.echo(f"  {line}", err=True)
    return child.poll() or OTHER_FAILURE
