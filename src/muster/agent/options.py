"""What an agent is started with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MACHINES = "machines"
"""The engine of agents that are started by hand, ssh or systemd."""


class AgentError(Exception):
    """Why the agent cannot run, in one line that says what to do."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """How the agent finds its daemon, and what it offers."""

    folder: Path
    node: str
    daemons: tuple[str, ...] = ()
    """Addresses of the daemon, "host:port"; empty: as in the token, or as before."""
    devices: int | None = None
    """None: the GPUs, or a virtual device for each core if there are none."""
    device_type: str = ""
    virtual: bool = False
    """Whether devices are made of CPU cores, whatever they are called."""
    advertise: str = ""
    """Where other nodes reach this one; empty: the address from which it reaches the daemon."""
    ports: tuple[int, int] = (20_000, 31_999)
    labels: Mapping[str, str] = field(default_factory=dict)
    rack: str = ""
    engine: str = MACHINES
    grace: float | None = None
    """s that the engine leaves after SIGTERM; None: SIGTERM ends the agent alone."""
    away: float | None = None
    """s without a daemon after which an agent that has no task ends; None: never."""
