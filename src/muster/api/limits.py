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


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimiter:
    """A token bucket for each caller."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait(self, key: str) -> float:
        """Take a token from the bucket; return 0.0, or s until there is one."""
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(float(self._burst), now)
            if len(self._buckets) > MAX_KEYS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        bucket.tokens = min(float(self._burst), bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens < 1.0:
            return (1.0 - bucket.tokens) / self._rate
        bucket.tokens -= 1.0
        return 0.0
