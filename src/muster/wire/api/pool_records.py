"""Records of pools and their quotas."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaRecord:
    """A pool's quota of one device type, and its use."""

    device_type: str
    """"*": of each type without a quota of its own, also of those that join later."""
    reservation: int = 0
    share: float = 1.0
    limit: int | None = None
    entitled: int = 0
    used: int = 0
    reservation_part: float | None = None
    """The reservation as a part of the devices there are, 0 to 1; None: it is a fixed number."""
    limit_part: float | None = None
    """The same of the limit."""


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """A pool."""

    name: str
    parent: str
    quotas: tuple[QuotaRecord, ...] = ()
    pending: int = 0
    running: int = 0
    leaf: bool = True
    shared: bool = False
    """Whether its users may see and stop each other's jobs."""
    allow: tuple[str, ...] = ()
    """Users, and Unix groups as "@group", who may submit; empty: all. Administrators always may."""
    max_priority: int | None = None
    """Highest priority of a user's job."""
    devices_per_user: int | None = None
    """Most devices that one user's jobs may hold."""
    policy: str = ""
    """The policy that decides about its jobs."""
    own_policy: str | None = None
    """The policy it names itself; None: it has that of the pool above."""
    budget: float | None = None
    """Device-hours that its jobs may use in a calendar month (UTC)."""
    budget_used: float = 0.0
    """Device-hours that they have used in this one."""
    own_aim: str | None = None
    """The aim it names itself for its policy; None: it has that of the pool above, if any."""
