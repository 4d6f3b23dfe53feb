"""`muster up`: checks the options, starts the daemon in the foreground or background, announces it."""

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import typer

from muster.app.daemon_folder import TakenError, make_own, private, read_status
from muster.app.options import Listening, UpOptions
from muster.cli.exits import OTHER_FAILURE
from muster.cli.parse import seconds_of
from muster.cli.render.terminal import complain
from muster.cli.render.words import counted
from muster.files.errors import InputError

STORE = "MUSTER_STORE"
"""The store's URL, where the process list does not show it."""
_DETACHED = 60.0
"""s for a daemon in the background to get ready: a journal of millions of facts takes a few."""
_LOOK = 0.05
_TAIL = 20
"""Lines of its log to show if it fails."""


def refuse_both(**given: object) -> None:
    """Reject options that contradict each other or need another one."""
    named = [f"--{option.replace('_', '-')}" for option, value in given.items() if value is not None]
    sources = [option for option in named if not option.startswith("--tls")]
    if len(sources) > 1:
        raise InputError.at(sources[0], f"conflicts with {sources[1]}; give one of them")
    for one, other in (("--tls-key", "--tls-cert"), ("--tls-cert", "--tls-key")):
        if one in named and other not in named:
            raise InputError.at(one, f"requires {other}")


def refuse_exposed(host: str, *, auth: bool, consent: bool) -> None:
    """Reject a daemon for which any machine of the network could run code here."""
    from muster.client.connecting.settings import is_loopback

    if not auth and not consent and not is_loopback(host):
        raise InputError.at(
            "--no-auth",
            f"with --host {host} everyone who can reach this machine could run code on it; "
            "leave it out, or add --let-anyone-run-code",
        )


def store_of(given: str | None, file: Path | None) -> str | None:
    """Return the store's URL or path: from the command line without a password, since every user of the
    machine can read that; with one from a file or `MUSTER_STORE`."""
    if given is not None and file is not None:
        raise InputError.at("--store", "conflicts with --store-file; give one of them")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise InputError.at("--store-file", f"cannot read {file}: {error}") from None
    if given is not None and _has_password(given):
        raise InputError.at(
            "--store",
            "the process list shows its password to every user; put the URL into a file "
            f"(--store-file FILE) or into {STORE}, or the password into ~/.pgpass",
        )
    return given or os.environ.get(STORE) or None


def _has_password(url: str) -> bool:
    """Return whether a URL has a password, in any of the places that libpq reads one from."""
    if "://" not in url:
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.password) or any("password" in name for name, _ in parse_qsl(parts.query))
    except ValueError:  # the store says what is wrong with it
        return "@" in url


def positive(option: str, text: str) -> float:
    """Parse the time of an option: s above 0."""
    seconds = seconds_of(option, text)
    if seconds <= 0:
        raise InputError.at(option, "must be above 0; write for example 60s")
    return seconds


def refuse_without_engine(engine: str | None, **given: object) -> None:
    """Reject options that need an engine where there is none, and devices of this machine with one."""
    here = ("devices", "topology")
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is not None and engine is None and name not in here:
            raise InputError.at(option, "requires --engine machines, ray or slurm")
        if value is not None and engine is not None and name in here:
            raise InputError.at(
                option, f"conflicts with --engine {engine}: agents say what their nodes have"
            )


def engine_extra(given: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Parse options of the engine's own, as NAME=VALUE."""
    found = []
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError.at("--engine-option", f"{text!r} is not NAME=VALUE")
        found.append((name, value))
    return tuple(found)


def run_up(options: UpOptions, *, detach: bool) -> int:
    """Run the daemon until it is stopped, or leave it running; return the exit code."""
    if detach:
        return _start_in_background(options.data)
    # Imported only now: `--detach` needs none of it.
    from muster.app.quick_start import prepare_start

    prepare_start()
    from muster.app.up import run

    try:
        run(options, lambda listening: typer.echo(announced(listening)))
    except TakenError as error:
        complain(f"{error}; stop it with `muster down`, or give another folder with --data")
        return OTHER_FAILURE
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            raise
        complain(
            f"cannot listen on {options.host}:{options.port}: {error.strerror}; try another --port"
        )
        return OTHER_FAILURE
    return 0


def announced(listening: Listening) -> str:
    """Where the daemon listens, what it has, and what to type next."""
    types = ", ".join(listening.device_types) or "CPU"
    machines = f"{counted(listening.nodes, 'node')}, {counted(listening.devices, 'device')} ({types})"
    facts = {
        "cluster": f"{listening.cluster}: {machines}, policy {listening.policy}",
        "folder": listening.data,
        "token": listening.token_file or "not needed",
    }
    if listening.socket:
        facts["socket"] = listening.socket
    if listening.elsewhere:
        facts["others"] = listening.elsewhere
    if listening.join:
        facts["nodes"] = f"on another machine: {listening.join}"
    if listening.jobs:
        facts["jobs"] = f"{counted(listening.jobs, 'job')} reattached"
    lines = [f"  {name:<9}{text}" for name, text in facts.items()]
    lines += [f"  warning  {text}" for text in listening.warnings]
    lines += [f"  note     {caveat}" for caveat in listening.caveats]
    following = "next: muster run train.py · muster ps · muster open · muster down"
    return "\n".join([f"muster is listening on {listening.url}", *lines, following])


def _start_in_background(data: Path) -> int:
    """Run the same command without `-b`, and return when its status file says ready or standby."""
    make_own(data)
    path = data / "daemon.log"
    command = [word for word in sys.orig_argv if word not in ("-b", "--detach")]
    with open(path, "ab", opener=private) as log:
        begun = log.tell()
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C here, and the end of this terminal, must not reach it
        )
    deadline = time.monotonic() + _DETACHED
    while child.poll() is None and time.monotonic() < deadline:
        status = read_status(data)
        if status is not None and status.pid == child.pid and status.state != "starting":
            standby = "standby: another daemon uses the store; this one takes over when it exits"
            typer.echo(announced(status.listening) if status.listening else standby)
            return 0
        time.sleep(_LOOK)
    complain(f"the daemon did not start; the end of its log, {path}:")
    # Only its own lines: earlier daemons wrote to the same file.
    said = path.read_bytes()[begun:].decode(errors="replace")
    for line in said.splitlines()[-_TAIL:]:
        typer.echo(f"  {line}", err=True)
    return child.poll() or OTHER_FAILURE
