"""What a caller asks about, as the API takes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.daemon.service.governing.pool_change import PoolRules
from muster.foresight.effort import WORLDS
from muster.model.job import Job
from muster.model.pool import Quota


@dataclass(frozen=True, slots=True)
class AskedPool:
    """A pool as `set_pool` would make it; None: unchanged."""

    parent: str | None = None
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    rules: PoolRules | None = None


@dataclass(frozen=True, slots=True)
class AskedNodes:
    """Nodes that join or are drained. Times in s since 1970."""

    names: tuple[str, ...]
    like: str = ""
    """The configuration set or the node that those which join are like."""
    at: float | None = None
    by: float | None = None


@dataclass(frozen=True, slots=True)
class AskedWhatIf:
    """Changes, made together."""

    policy: str | None = None
    pools: Mapping[str, AskedPool] = field(default_factory=dict)
    add: tuple[AskedNodes, ...] = ()
    drain: tuple[AskedNodes, ...] = ()
    submit: tuple[tuple[Job, float | None], ...] = ()
    """Jobs, and when each is submitted; None: now."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """By number or name of a job."""
    worlds: int = WORLDS
    seed: int = 0
