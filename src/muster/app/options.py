"""What a daemon is started with, and what it says once it is ready. Quick to import."""

from dataclasses import dataclass
from pathlib import Path

PORT = 7077
"""Default port of the API."""
AGENT_PORT = 7078
"""Default port for agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    data: Path
    """Its folder: store, task logs, `daemon.pid`. Created if missing."""
    devices: int | None = None
    """Virtual devices; None: those of the machine."""
    topology: str | None = None
    """Virtual devices as "2x4" (nodes x devices) or "2x2x4" (nodes x sockets x devices)."""
    cluster: Path | None = None
    """A cluster file, in place of both."""
    policy: str = "muster"
    host: str = "127.0.0.1"
    port: int = PORT
    store: str | None = None
    """A URL, or the path of an SQLite file; None: one in `data`."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    auth: bool = True
    interval: float = 60.0
    """s between cycles when nothing changes."""
    log_format: str = "text"
    log_level: str = "info"
    run_as: str | None = None
    """"submitter" or "daemon"; None: as submitters if the daemon is root's."""
    tls: bool = True
    """Whether to encrypt off loopback; `tls_cert` encrypts anywhere."""
    socket: Path | None = None
    """A Unix socket for all users of this machine; None: one for the daemon's user, in `data`."""
    allow_hosts: tuple[str, ...] = ()
    """Names, beside the machine's own, under which clients reach it."""
    simulate_devices: bool = False
    """Whether to accept a cluster file with other devices than the machine's."""
    engine: str | None = None
    """Who brings nodes: "machines", "ray", "slurm"; None: all tasks run on this machine."""
    agent_host: str = "0.0.0.0"
    """Address to listen on for agents and tasks of other machines."""
    agent_port: int = AGENT_PORT
    advertise: str | None = None
    """Address at which nodes reach this machine; None: the one of its default route."""
    lost_after: float = 30.0
    """s of silence after which a node is lost."""
    engine_address: str | None = None
    engine_partition: str | None = None
    engine_nodes: str | None = None
    engine_time: float | None = None
    """s."""
    engine_extra: tuple[tuple[str, str], ...] = ()
    """The engine's own options."""
    learn_links: bool = True
    """Whether decisions are made by what links have carried, or by the cluster file alone."""
    planners: int | None = None
    """Planners that decide beside each other; None: as the cluster file says, else one."""
    keep_jobs: float = 400 * 86_400.0
    """s after which a job that is over is forgotten: a year, and a month to compare it with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    url: str
    cluster: str
    nodes: int
    devices: int
    device_types: tuple[str, ...]
    policy: str
    data: str
    token_file: str | None
    """Where the command line finds its token; None: no tokens are needed."""
    jobs: int = 0
    """Live jobs found in the journal."""
    caveats: tuple[str, ...] = ()
    """What users might expect and is not so here."""
    socket: str | None = None
    """The Unix socket that the command line uses."""
    elsewhere: str | None = None
    """What users of other machines set to reach it."""
    warnings: tuple[str, ...] = ()
    join: str | None = None
    """What to run on another machine to make it a node."""
