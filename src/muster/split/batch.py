"""Unequal devices finish together (KAIST, seed 001): the parts of a batch that make them.

Device i takes a_i + c_i b_i seconds for b_i samples. If samples could be cut, all would finish at

    T = (M + sum a_i / c_i) / sum 1 / c_i

Whole samples finish no earlier: T is raised to the next moment at which some device completes one more,
until all M are done. A device takes at most what its memory holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf
from typing import Protocol

NUDGE = 1e-9
"""Part of a time by which it is moved on where the next sample is done at once."""


class Line(Protocol):
    """Seconds of a device for a batch: `fixed` s + `per_sample` s/sample x batch; hashable."""

    @property
    def fixed(self) -> float: ...

    @property
    def per_sample(self) -> float: ...

    def seconds(self, batch: float, /) -> float:
        """For a batch on one device."""


@dataclass(frozen=True, slots=True)
class Bearer:
    """Identical devices that take one part of the batch together: their line, and samples that fit."""

    line: Line
    devices: int = 1
    most: float = inf
    """Samples per device."""

    def samples_by(self, time: float) -> int:
        """Return the samples each device has done by a time."""
        done = (time - self.line.fixed) / max(self.line.per_sample, 1e-12)
        return max(0, floor(min(done, self.most) + 1e-9))

    def next_after(self, samples: int) -> float:
        """Return when each device has done one more."""
        return self.line.seconds(samples + 1) if samples + 1 <= self.most else inf


def shares(bearers: Sequence[Bearer], batch: int) -> tuple[int, ...] | None:
    """Return the samples of each; None if they do not fit into memory."""
    time = finish(bearers, batch)
    if time == inf:
        return None
    parts = [bearer.samples_by(time) * bearer.devices for bearer in bearers]
    spare = sum(parts) - batch
    # Those that would finish last give back the excess: nobody then finishes later.
    while spare > 0:
        for i in sorted(range(len(parts)), key=lambda i: -_finished(bearers[i], parts[i])):
            given = min(spare, parts[i], max(bearers[i].devices, spare - sum(parts) + parts[i]))
            parts[i] -= given
            spare -= given
    return tuple(parts)


def finish(bearers: Sequence[Bearer], batch: int) -> float:
    """Return the earliest time at which all whole samples can be done, s; inf if they do not fit."""
    kinds: dict[tuple[Line, float], int] = {}
    for bearer in bearers:
        key = (bearer.line, bearer.most)
        kinds[key] = kinds.get(key, 0) + bearer.devices
    return finish_alike([Bearer(line, n, most) for (line, most), n in kinds.items()], batch)


def finish_alike(bearers: Sequence[Bearer], batch: int) -> float:
    """The same, with identical devices already merged."""
    time = _together(bearers, batch)
    nudge = NUDGE * max(time, NUDGE)
    while time < inf:
        done = [bearer.samples_by(time) for bearer in bearers]
        if sum(each * b.devices for each, b in zip(done, bearers, strict=True)) >= batch:
            break
        then = min(b.next_after(each) for each, b in zip(done, bearers, strict=True))
        if then <= time:  # a sample that takes no time, or less than the clock tells apart
            then, nudge = time + nudge, 2 * nudge
        time = then
    return time


def _together(bearers: Sequence[Bearer], batch: float) -> float:
    """Return when all would finish with divisible samples; those with full memory finish earlier."""
    time = _unbounded(bearers, batch)
    roomy = [bearer for bearer in bearers if not bearer.line.seconds(bearer.most) < time]
    left = batch - sum(b.most * b.devices for b in bearers if b.line.seconds(b.most) < time)
    if not 0 < len(roomy) < len(bearers) or left <= 0:
        return time
    return max(time, _together(roomy, left))


def _unbounded(bearers: Sequence[Bearer], batch: float) -> float:
    """The same without memory limits."""
    rate = begun = 0.0
    for bearer in bearers:
        each = bearer.devices / max(bearer.line.per_sample, 1e-12)
        rate += each
        begun += each * bearer.line.fixed
    time = (batch + begun) / rate
    # Those that would start only then take no samples; the formula has them undo others'.
    begin = [bearer for bearer in bearers if bearer.line.fixed < time]
    return _unbounded(begin, batch) if 0 < len(begin) < len(bearers) else time


def _finished(bearer: Bearer, part: int) -> float:
    return bearer.line.seconds(part / bearer.devices)
