"""`muster up` and `muster down`: the daemon of this machine. Quick to import."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import DAEMON

machine = typer.Typer(pretty_exceptions_enable=False)

PORT = 7077
"""Where a daemon listens unless told otherwise."""

WHAT, WHERE, HOW = "What there is", "Where it listens and keeps things", "How it works"
"""Groups of options in the help."""


class LogFormat(StrEnum):
    """How the daemon's own log is written."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """What a daemon is started with."""

    data: Path
    """Its folder: store, logs of tasks, `daemon.pid`; made if it is not there."""
    devices: int | None = None
    """So many virtual devices; None: those that are there."""
    topology: str | None = None
    """Virtual devices as "2x4" (nodes x devices) or "2x2x4" (nodes x sockets x devices)."""
    cluster: Path | None = None
    """A cluster file in place of both."""
    policy: str = "muster"
    host: str = "127.0.0.1"
    port: int = PORT
    store: str | None = None
    """A URL, or the path of an SQLite file; None: one in `data`."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    auth: bool = True
    interval: float = 60.0
    """s after which it decides again though nothing has changed."""
    log_format: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A daemon that is ready."""

    url: str
    cluster: str
    nodes: int
    devices: int
    device_types: tuple[str, ...]
    policy: str
    role: str
    """"active" or "standby"."""
    data: Path
    token_file: Path | None
    """Where the command line finds its token; None: there are none."""
    jobs: int = 0
    """Live jobs that it found in its journal."""


Up = Callable[[UpOptions, Callable[[Listening], None]], None]
"""Runs a daemon until it is told to stop, and calls back when it is ready."""


Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", rich_help_panel=WHERE, help="The daemon's folder. (default: the user's)"
    ),
]


@machine.command(rich_help_panel=DAEMON)
def up(
    context: typer.Context,
    devices: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", rich_help_panel=WHAT, help="So many virtual devices on CPUs."),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            metavar="NxM",
            rich_help_panel=WHAT,
            help="Virtual devices as nodes x devices, or nodes x sockets x devices.",
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=WHAT, help="A cluster file: docs/reference/files.md."
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="NAME", rich_help_panel=HOW, help="Who gets how much.")
    ] = "muster",
    interval: Annotated[
        str, typer.Option(metavar="TIME", rich_help_panel=HOW, help="Decide at least so often.")
    ] = "60s",
    log_format: Annotated[
        LogFormat, typer.Option(rich_help_panel=HOW, help="Of the daemon's own log.")
    ] = LogFormat.TEXT,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", rich_help_panel=HOW, help="Leave it running; return.")
    ] = False,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", rich_help_panel=WHERE, help="Where it listens.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, rich_help_panel=WHERE, help="0: any.")] = PORT,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            rich_help_panel=WHERE,
            help="PostgreSQL by its URL, or an SQLite file. (default: one in the folder)",
        ),
    ] = None,
    data: Data = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=WHERE, help="Certificate, for TLS.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=WHERE, help="Its key.")
    ] = None,
    auth: Annotated[
        bool,
        typer.Option("--auth/--no-auth", rich_help_panel=WHERE, help="Whether callers need tokens."),
    ] = True,
) -> None:
    """Start the daemon of this machine: it takes jobs, and shares the devices among them.

    Without options it uses the GPUs that are there, or the CPUs.
    What it started lives on when it stops, and the next one takes it up again.

    Examples:
      muster up --devices 8              8 virtual devices, on any laptop
      muster up --topology 2x4 -d        as two nodes of four; leave it running
      muster up --cluster lab.yaml       with the pools and figures of a file
    """
    from muster.cli.daemon.start import checked_interval, checked_policy, refuse_both, run_up

    refuse_both(devices=devices, topology=topology, cluster=cluster, cert=tls_cert, key=tls_key)
    options = UpOptions(
        data=data_folder(data),
        devices=devices,
        topology=topology,
        cluster=cluster,
        policy=checked_policy(policy),
        host=host,
        port=port,
        store=store,
        tls_cert=tls_cert,
        tls_key=tls_key,
        auth=auth,
        interval=checked_interval(interval),
        log_format=log_format.value,
    )
    raise typer.Exit(run_up(context.obj, options, detach=detach))


@machine.command(rich_help_panel=DAEMON)
def down(
    data: Data = None,
    timeout: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait until it is gone.")
    ] = "30s",
) -> None:
    """Stop the daemon of this machine; its jobs go on, and the next `muster up` takes them up again.

    To end jobs too, stop them first: muster stop JOB...
    """
    from muster.cli.daemon.stop import run_down

    raise typer.Exit(run_down(data_folder(data), timeout))


def data_folder(given: Path | None) -> Path:
    """The daemon's folder: the one given, else below `MUSTER_HOME`, else the user's for data."""
    if given is not None:
        return given.absolute()
    home = os.environ.get("MUSTER_HOME")
    if home:
        return Path(home).absolute() / "data"
    from platformdirs import user_data_path

    return user_data_path("muster")
