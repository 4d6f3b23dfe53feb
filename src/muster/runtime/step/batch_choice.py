"""The batch of a training that nobody schedules, chosen by its own measurements.

    goodput(M) = gain(M) / seconds(M)        in steps of the user's own batch per s

The seconds of a step are measured at each batch that was used, and interpolated between them. Batches
up to twice the largest measured are compared: a few steps at a new one tell whether throughput grows.
"""

from collections import deque
from statistics import median

from muster.runtime.data.limits import BatchLimits
from muster.split.goodput import gain, seconds_at

SKIPPED = 2
"""Steps after a change that are not timed: samples were loaded ahead for another batch."""
ENOUGH = 5
"""Timed steps at a batch before the next decision."""
KEPT = 15
"""Timed steps kept of each batch."""
GAIN = 1.05
"""Least gain in goodput for a change: steps vary by some percent."""
GROWTH = 2
"""A new batch is at most this many times the largest one measured."""
FINER = 2**0.5
"""Between neighbouring batches that are compared: goodput is flat around its best."""


class BatchChoice:
    """Chooses batches of one set of workers; another set starts from nothing."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._times: dict[int, deque[float]] = {}
        self._at: tuple[int, int] | None = None
        """Formation and batch of the last step."""
        self._since = 0
        """Steps since either changed."""
        self._failed = limits.largest + 1
        """The smallest batch that does not fit into memory."""

    def note(self, formation: int, batch: int, samples: int, seconds: float) -> None:
        """Note the s of a step; one with fewer samples than the batch ends an epoch."""
        if self._at != (formation, batch):
            if self._at is not None and self._at[0] != formation:
                self._times.clear()
            self._at, self._since = (formation, batch), 0
        self._since += 1
        if self._since > SKIPPED and samples == batch and seconds > 0:
            self._times.setdefault(batch, deque(maxlen=KEPT)).append(seconds)

    def limit(self, batch: int) -> None:
        """Note that no more than this batch fits into memory."""
        self._failed = min(self._failed, batch + 1)

    def best(self, noise: float | None) -> int | None:
        """Return the batch to change to; None: stay."""
        if self._at is None or noise is None:
            return None
        now = self._at[1]
        if len(self._times.get(now, ())) < ENOUGH or (self._since - SKIPPED) % ENOUGH:
            return None
        known = {batch: median(times) for batch, times in self._times.items() if len(times) >= ENOUGH}
        goodput = {
            batch: gain(noise, self._limits.own, batch) / seconds_at(known, batch)
            for batch in self._candidates(max(known), now)
        }
        best = max(goodput, key=lambda batch: goodput[batch])
        return best if goodput[best] > GAIN * goodput[now] else None

    def _candidates(self, widest: int, now: int) -> list[int]:
        most = min(GROWTH * widest, self._limits.largest, self._failed - 1)
        found, batch = {now}, float(self._limits.own)
        while batch < most:
            found.add(round(batch))
            batch *= FINER
        return sorted(found | {max(most, self._limits.own)})
