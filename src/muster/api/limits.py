"""What a caller may take of the daemon at once."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MAX_KEYS = 1_000
"""Callers remembered: who was not heard of for longest is forgotten, and begins anew."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on requests; generous for people and scripts, tight enough for a loop gone wild."""

    body: int = 1 << 20
    """Bytes of a request's body: a job file is below a kilobyte, the largest profile below 100."""
    rate: float = 1_000.0
    """Requests per s and token, sustained."""
    burst: int = 2_000
    """Requests at once, after a pause."""
    streams: int = 32
    """Streams of events and logs open at once, for each token."""
    heartbeat: float = 15.0
    """s after which a silent stream says that it lives: below the minute of most proxies."""


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
        """Take one; 0.0, or s until there is one to take."""
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
