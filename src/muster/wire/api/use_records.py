"""What the API says of use, of its limits, and of who is told what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """What a group of jobs held, in device-hours."""

    group: dict[str, str]
    """What the jobs have in common: by "user", "pool", "application", "type", "job" or "label:KEY"."""
    device_hours: float
    idle: float = 0.0
    """Of them without running: starting, stopping, waiting to restart."""
    lost: float = 0.0
    """Work done again or in vain: after the last checkpoint before a stop, a loss or a failure."""
    jobs: int = 0
    utilisation: float | None = None
    """How busy the devices were, 0 to 1, as far as they told; None: they did not."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was held within a time."""

    since: float
    """Beginning of the first hour, in s since 1970."""
    until: float
    by: tuple[str, ...]
    groups: tuple[UsageRecord, ...]
    """Most device-hours first."""
    total: UsageRecord


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """Who is told what of which jobs, and how that has gone."""

    name: str
    user: str = ""
    on: tuple[str, ...] = ()
    """"started", "succeeded", "failed", "stopped", "preempted", "waiting"."""
    webhook: str = ""
    command: str = ""
    """Run by the daemon instead."""
    everybody: bool = False
    """Of all users' jobs, not only of the user's."""
    pool: str = ""
    """Only of jobs in this pool."""
    patience: float = 1800.0
    """s after which a job has waited too long."""
    told: int = 0
    """Notices since the daemon began."""
    pending: int = 0
    """Those on their way."""
    given_up: int = 0
    error: str = ""
    """Of the last attempt; empty: it succeeded."""


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """How the test of a subscription went."""

    told: bool
    error: str = ""


@dataclass(frozen=True, slots=True)
class SecretRecord:
    """A secret of the caller's."""

    secret: str


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """What one user may have at once, and has."""

    user: str
    """"*": everybody without limits of their own."""
    jobs: int
    """Most live jobs."""
    size: int
    """Most bytes of the commands and environments of live jobs."""
    submissions: int
    """Most submissions per minute."""
    own: bool = False
    """Whether the limits were set for this user."""
    live: int = 0
    """Live jobs."""
    used: int = 0
    """Bytes of their commands and environments."""
    device_hours: float = 0.0
    """Most device-hours in a calendar month (UTC); 0: no limit."""
    device_hours_used: float = 0.0
    """Device-hours of this month."""
