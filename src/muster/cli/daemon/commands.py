"""`muster up` and `muster down`: the daemon of this machine. Quick to import."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from muster.app.options import AGENT_PORT, PORT, UpOptions
from muster.cli.choices import Output
from muster.cli.group import Commands, QuickCommand
from muster.cli.options import DAEMON, option

machine = Commands()

CLUSTER, NETWORK, OPERATION = "Cluster", "Network and storage", "Operation"
MACHINES = "Many machines"
"""Groups of options in the help."""


POLICY = "muster"
"""The default policy. Looking another one up loads all of them, which takes a tenth of a start."""

LogLevel = Literal["debug", "info", "warning"]
"""Least severe lines of the daemon's own log."""

RunAs = Literal["submitter", "daemon"]
"""Whom jobs run as."""

EngineName = Literal["machines", "ray", "slurm"]
"""Who brings nodes."""

Data = Annotated[
    Path | None,
    option(NETWORK, "The daemon's folder. (default: the user's data folder)", metavar="DIR"),
]


@machine.command(rich_help_panel=DAEMON, cls=QuickCommand)
def up(
    devices: Annotated[
        int | None,
        option(CLUSTER, "Virtual devices on CPUs.", "--devices", "-d", min=1, metavar="N"),
    ] = None,
    topology: Annotated[
        str | None,
        option(
            CLUSTER, "Virtual devices: nodes x devices, or nodes x sockets x devices.", metavar="NxM"
        ),
    ] = None,
    cluster: Annotated[
        Path | None, option(CLUSTER, "Cluster file (docs/reference/files.md).", metavar="FILE")
    ] = None,
    policy: Annotated[str, option(OPERATION, "Scheduling policy.", metavar="NAME")] = POLICY,
    interval: Annotated[
        str, option(OPERATION, "Longest time between two scheduling cycles.", metavar="TIME")
    ] = "60s",
    learn_links: Annotated[
        bool,
        option(
            OPERATION,
            "Decide by what links have carried; else by the cluster file alone.",
            "--learn-links/--no-learn-links",
        ),
    ] = True,
    planners: Annotated[
        int | None,
        option(
            OPERATION,
            "Planners in processes of their own, each for some of the pools. (default: as the cluster "
            "file says, else 1)",
            min=1,
            max=64,
        ),
    ] = None,
    keep_jobs: Annotated[
        str, option(OPERATION, "How long to keep jobs that are over in lists.", metavar="TIME")
    ] = "400d",
    log_format: Annotated[Output, option(OPERATION, "Format of the daemon's log.")] = "text",
    log_level: Annotated[LogLevel, option(OPERATION, "Least severe lines to log.")] = "info",
    detach: Annotated[bool, option(OPERATION, "Run in the background.", "--detach", "-b")] = False,
    host: Annotated[str, option(NETWORK, "Address to listen on.", metavar="ADDRESS")] = "127.0.0.1",
    port: Annotated[
        int, option(NETWORK, "Port to listen on; 0: any free one.", min=0, max=65535)
    ] = PORT,
    store: Annotated[
        str | None,
        option(
            NETWORK,
            "PostgreSQL URL without password, or SQLite file. (default: SQLite in the folder)",
            metavar="URL|FILE",
        ),
    ] = None,
    store_file: Annotated[
        Path | None,
        option(NETWORK, "File with the store's URL, password included.", metavar="FILE"),
    ] = None,
    data: Data = None,
    tls_cert: Annotated[Path | None, option(NETWORK, "TLS certificate.", metavar="FILE")] = None,
    tls_key: Annotated[Path | None, option(NETWORK, "TLS key.", metavar="FILE")] = None,
    tls: Annotated[
        bool, option(NETWORK, "Encrypt what other machines send and get.", "--tls/--no-tls")
    ] = True,
    auth: Annotated[bool, option(NETWORK, "Require tokens over TCP.", "--auth/--no-auth")] = True,
    let_anyone_run_code: Annotated[
        bool, option(NETWORK, "Allow --no-auth for other machines.", "--let-anyone-run-code")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        option(NETWORK, "Another name of this machine; may be repeated.", metavar="NAME"),
    ] = None,
    socket: Annotated[
        Path | None,
        option(
            NETWORK,
            "Unix socket for all users of this machine. (default: one for you, in the folder)",
            metavar="PATH",
        ),
    ] = None,
    simulate_devices: Annotated[
        bool,
        option(CLUSTER, "Accept a cluster file with GPUs that are not here.", "--simulate-devices"),
    ] = False,
    run_as: Annotated[
        RunAs | None,
        option(OPERATION, "Unix user that jobs run as. (default: submitter if root, else daemon)"),
    ] = None,
    engine: Annotated[
        EngineName | None,
        option(MACHINES, "Who brings nodes. (default: nobody, all jobs run on this machine)"),
    ] = None,
    agent_host: Annotated[
        str, option(MACHINES, "Address to listen on for agents and their tasks.", metavar="ADDRESS")
    ] = "0.0.0.0",
    agent_port: Annotated[
        int,
        option(
            MACHINES, "Port for agents; 0: any free one, the same after a restart.", min=0, max=65535
        ),
    ] = AGENT_PORT,
    advertise: Annotated[
        str | None,
        option(
            MACHINES,
            "Address at which nodes reach this machine. (default: of its default route)",
            metavar="ADDRESS",
        ),
    ] = None,
    lost_after: Annotated[
        str, option(MACHINES, "Silence after which a node is lost.", metavar="TIME")
    ] = "30s",
    address: Annotated[
        str | None, option(MACHINES, "Address of the engine. (default: found)", metavar="ADDRESS")
    ] = None,
    partition: Annotated[
        str | None, option(MACHINES, "The engine's partition to use.", metavar="NAME")
    ] = None,
    nodes: Annotated[
        str | None, option(MACHINES, "Nodes to hold: least and most.", metavar="A..B")
    ] = None,
    time: Annotated[
        str | None, option(MACHINES, "Longest time to hold a node.", metavar="TIME")
    ] = None,
    engine_option: Annotated[
        list[str] | None,
        option(MACHINES, "Another option of the engine; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
) -> None:
    """Start the daemon of this machine: it accepts jobs and shares the devices among them.

    By default it uses the machine's GPUs, or its CPU cores if there are none.
    Jobs keep running when the daemon stops; the next `muster up` reattaches.

    Examples:
      muster up --devices 8              8 virtual devices, on any laptop
      muster up --topology 2x4 -b        two nodes of four, in the background
      muster up --cluster lab.yaml       nodes and pools from a file
      muster up --engine machines        nodes are machines on which `muster agent` runs
    """
    from muster.cli.daemon.start import (
        engine_extra,
        positive,
        refuse_both,
        refuse_exposed,
        refuse_without_engine,
        run_up,
        store_of,
    )
    from muster.cli.parse import policy_of

    refuse_both(devices=devices, topology=topology, cluster=cluster, tls_cert=tls_cert, tls_key=tls_key)
    refuse_exposed(host, auth=auth, consent=let_anyone_run_code)
    refuse_without_engine(
        engine,
        devices=devices,
        topology=topology,
        advertise=advertise,
        address=address,
        partition=partition,
        nodes=nodes,
        time=time,
        engine_option=engine_option,
    )
    options = UpOptions(
        data=data_folder(data),
        devices=devices,
        topology=topology,
        cluster=cluster,
        policy=policy if policy == POLICY else policy_of("--policy", policy),
        host=host,
        port=port,
        store=store_of(store, store_file),
        tls_cert=tls_cert and tls_cert.absolute(),
        tls_key=tls_key and tls_key.absolute(),
        auth=auth,
        interval=positive("--interval", interval),
        log_format=log_format,
        log_level=log_level,
        run_as=run_as,
        tls=tls,
        socket=socket and socket.absolute(),
        allow_hosts=tuple(allow_host or ()),
        simulate_devices=simulate_devices,
        engine=engine,
        agent_host=agent_host,
        agent_port=agent_port,
        advertise=advertise,
        lost_after=positive("--lost-after", lost_after),
        engine_address=address,
        engine_partition=partition,
        engine_nodes=nodes,
        engine_time=None if time is None else positive("--time", time),
        engine_extra=engine_extra(engine_option or ()),
        learn_links=learn_links,
        planners=planners,
        keep_jobs=positive("--keep-jobs", keep_jobs),
    )
    raise typer.Exit(run_up(options, detach=detach))


@machine.command(rich_help_panel=DAEMON)
def down(
    data: Data = None,
    timeout: Annotated[str, option(None, "How long to wait for it to stop.", metavar="TIME")] = "30s",
) -> None:
    """Stop the daemon of this machine. Jobs keep running; the next `muster up` reattaches.

    To end jobs as well, stop them first: muster stop JOB...
    """
    from muster.cli.daemon.stop import last_daemon, run_down

    folder = data_folder(data)
    raise typer.Exit(run_down(folder if data else last_daemon(folder), timeout))


@machine.command(rich_help_panel=DAEMON)
def snapshot(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File to write; - for standard output.")],
) -> None:
    """Save what the scheduler decides on now, to look at or report a decision. Administrators only.

    The file has cluster, pools, jobs and their expected speed; no commands, environments or tokens.

    Example: muster snapshot now.json && muster play now.json --policy fifo
    """
    from muster.cli.connect import daemon
    from muster.cli.parse import writing
    from muster.cli.render.terminal import hint

    with daemon() as client:
        body = client.snapshot()
    if str(file) == "-":
        typer.echo(body)
        return
    with writing(file):
        file.write_bytes(body)
    hint(f"decide on it again: muster play {file}")


def data_folder(given: Path | None) -> Path:
    """Return the daemon's folder: as given, else below `MUSTER_HOME`, else the user's data folder."""
    if given is not None:
        return given.absolute()
    home = os.environ.get("MUSTER_HOME")
    if home:
        return Path(home).absolute() / "data"
    from platformdirs import user_data_path

    return user_data_path("muster")
