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
    open_rate: float = 100.0
    """Requests per s and peer that need no token, sustained."""
    open_burst: int = 500
    head: int = 64 << 10
    """Bytes of a request's headers: browsers with many cookies send 16 kB."""
    url: int = 16 << 10
    head_time: float = 10.0
    """s for a request's head to arrive."""
    body_time: float = 30.0
    """s for its body."""
    read_time: float = 60.0
    """s for a peer to read what it was sent."""
    connections: int = 1024
    """Open connections over TCP, and as many over the Unix socket."""
    per_peer: int = 256
    """Of these, from one address or Unix user."""


class RateLimiter:
    """A token bucket for each caller."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self.rate, self._burst, self._clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens of each caller, and when they were counted."""

    def wait(self, key: str) -> float:
        """Take a token from the bucket; return 0.0, or s until there is one."""
        now, full = self._clock(), float(self._burst)
        before, at = self._buckets.pop(key, (full, now))
        tokens = min(full, before + (now - at) * self.rate)
        missing = max(0.0, 1.0 - tokens)
        self._buckets[key] = (tokens if missing else tokens - 1.0), now
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return missing / self.rate
