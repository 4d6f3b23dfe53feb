"""Records of the daemon itself."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """The current policy and the available ones."""

    name: str
    policies: tuple[str, ...]
    text: str = ""
    """What it does, in a few words."""


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """The daemon's status."""

    version: str
    cluster: str
    role: str
    """"active"; or "starting": of a daemon that loads, only the jobs are known."""
    since: float
    policy: str
    devices: int
    free: int
    pending: int
    running: int
    cycles: int
    last_cycle: float
    """Seconds of the last cycle."""
    trouble: str = ""
    """What is wrong, such as a full disk; empty if nothing."""
    counts: dict[str, int] = field(default_factory=dict)
    """Jobs by status."""
    caveats: tuple[str, ...] = ()
    """What users might expect and is not so here: limits that are not enforced, users not separated."""
    warning: str = ""
    """What its administrator should know, such as devices that do not exist; empty if nothing."""
