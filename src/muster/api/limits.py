"""Limits on callers."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_KEYS = 1_000
"""Callers to remember; the least recent one is forgotten."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on requests: generous for people and scripts, tight enough for a runaway loop."""

    body: int = 1 << 20
    """Bytes of a body: a job file is below 1 kB, the largest profile below 100 kB."""
    rate: float = 1_000.0
    """Requests per s and token, sustained."""
    burst: int = 2_000
    """Requests at once, after a pause."""
    streams: int = 32
    """Open streams of events and logs, per token."""
    heartbeat: float = 15.0
    """s between heartbeats of a silent stream: below the minute of most proxies."""


class RateLimiter:
    """A token bucket for each caller."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens of each caller, and when they were counted."""

    def wait(self, key: str) -> float:
        """Take a token from the bucket; return 0.0, or s until there is one."""
        now, full = self._clock(), float(self._burst)
        before, at = self._buckets.pop(key, (full, now))
        tokens = min(full, before + (now - at) * self._rate)
        missing = max(0.0, 1.0 - tokens)
        self._buckets[key] = (tokens if missing else tokens - 1.0), now
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return missing / self._rate
