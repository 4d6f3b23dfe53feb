"""Shares of the batch with which unequal workers finish together (KAIST, seed 001).

Every worker fits its line, t = a + c b seconds for b samples, and puts it into its ballot. All workers
then compute the same shares: `reshare` is pure, and all its floats come from the summed ballots (never
a worker's own unrounded line).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import median, median_low

from muster.runtime.errors import BadTrainingError
from muster.split.batch import Bearer, shares

STEPS = 12
"""Steps that a line is fitted to."""
NEAR = 0.1
"""Shares this close say nothing about the slope: steps vary by some percent anyway."""
STEEPEST_GAIN = 5.0
"""Largest speed-up per sample of a larger batch: ResNet-50 on an H200 goes from 519 to 2528 samples/s
between batches of 8 and 512. So no worker looks free and gets everything."""
CHANGED = 1.2
"""If the newest steps are all this many times slower or faster, the worker has changed."""
NEW = 3
"""The newest steps: one or two may be a burst of other work."""
GAIN = 0.03
"""Least relative gain of a change of shares. Less is noise over a dozen steps, and a change has a cost:
samples loaded ahead are on other workers, and kernels meet a new shape."""
MOST_NOISE = 0.25
"""However noisy steps are, a gain above a quarter counts."""
LEAST_MOVE = 2
"""Least change of some share, in samples: one is rounding."""


@dataclass(frozen=True, slots=True)
class _Line:
    fixed: float
    per_sample: float

    def seconds(self, batch: float) -> float:
        return self.fixed + self.per_sample * batch


class Gauge:
    """One worker's own speed, from its last steps."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float]] = deque(maxlen=STEPS)

    def note(self, samples: int, seconds: float) -> None:
        """Note a step's samples here and their compute seconds (without waiting for others)."""
        if samples < 1 or not 0 < seconds < inf:
            return
        self._steps.append((samples, seconds))
        if self._has_changed():
            while len(self._steps) > NEW:
                self._steps.popleft()

    def line(self) -> tuple[float, float] | None:
        """Return (a in s, c in s/sample); None before the first step.

        Medians, and the lower of two: steps have many reasons to be slow and none to be fast. The slope
        is the median over the steps of their median slope to the others (Siegel), in which the line
        through 0 has two votes, so that one odd step does not outvote it.
        """
        if not self._steps:
            return None
        plain = median_low(seconds / samples for samples, seconds in self._steps)
        slope = max(self._slope(plain), plain / STEEPEST_GAIN)
        fixed = median_low(seconds - slope * samples for samples, seconds in self._steps)
        return (fixed, slope) if fixed > 0 else (0.0, plain)

    def _slope(self, plain: float) -> float:
        slopes = []
        for b, t in self._steps:
            far = [(other, then) for other, then in self._steps if not _near(b, other)]
            slopes.append(median_low([(then - t) / (other - b) for other, then in far] + [plain] * 2))
        return median_low(slopes)

    def _has_changed(self) -> bool:
        """Whether the newest steps are all slower, or all faster, than earlier ones of similar size."""
        steps = list(self._steps)
        old, new = steps[:-NEW], steps[-NEW:]
        ratios = []
        for samples, seconds in new:
            alike = [t / b for b, t in old if _near(b, samples)]
            if not alike:
                return False
            ratios.append(seconds / samples / median_low(alike))
        return min(ratios) > CHANGED or max(ratios) < 1 / CHANGED

    def noise(self) -> float:
        """Return the relative error of the line: twice the standard error of a median of its steps."""
        line = self.line()
        if line is None or len(self._steps) < NEW:
            return 0.0
        off = median(abs(t / (line[0] + line[1] * b) - 1) for b, t in self._steps)
        # For normal errors: the deviation is 1.48 medians, a median's error 1.25 / sqrt(n) of that.
        return float(2 * 1.25 * 1.48 * off / sqrt(len(self._steps)))


def _near(b: int, other: int) -> bool:
    return abs(b - other) <= NEAR * max(b, other)


def reshare(
    lines: Sequence[tuple[float, float] | None],
    caps: Sequence[float],
    able: Sequence[bool],
    batch: int,
    current: Sequence[int],
    noise: float = 0.0,
) -> tuple[int, ...]:
    """Return each worker's samples of a full batch, by rank.

    `lines`: (a, c) of each; None if unmeasured, then assumed average. `caps`: samples that fit into
    memory (inf: unknown). `able`: False gets nothing, without the state. `current`: kept if a change
    gains little, or less than the error of the lines (`noise`): equal workers would pass samples back
    and forth. Every able worker gets at least one sample, or it would never be measured again.
    """
    ranks = [rank for rank, can in enumerate(able) if can and caps[rank] >= 1]
    room = [caps[rank] for rank in ranks]
    measured = [lines[rank] for rank in ranks]
    today = [current[rank] for rank in ranks] if len(current) == len(able) else []
    _check_fit(room, batch)
    stands = sum(current) == batch and _may_stand(today, room, batch)
    if stands and not any(measured):
        return tuple(current)
    taken = _filled_in(measured, batch)
    together = shares([Bearer(line, 1, cap) for line, cap in zip(taken, room, strict=True)], batch)
    assert together is not None  # `_check_fit` has seen that they fit
    found = _one_each(list(together), taken)
    if stands and not _worth_it(found, today, taken, noise):
        return tuple(current)
    given = dict(zip(ranks, found, strict=True))
    return tuple(given.get(rank, 0) for rank in range(len(able)))


def _worth_it(
    found: Sequence[int], current: Sequence[int], lines: Sequence[_Line], noise: float
) -> bool:
    moved = max(abs(new - old) for new, old in zip(found, current, strict=True))
    gain = 1 - _step(lines, found) / _step(lines, current)
    return moved >= LEAST_MOVE and gain >= GAIN + min(noise, MOST_NOISE)


def _step(lines: Sequence[_Line], parts: Sequence[int]) -> float:
    """Return the seconds until the last worker is done."""
    return max(line.seconds(part) for line, part in zip(lines, parts, strict=True) if part)


def _filled_in(lines: Sequence[tuple[float, float] | None], batch: int) -> list[_Line]:
    """Replace missing lines by the measured workers' median at an equal share."""
    equal = batch / len(lines)
    known = sorted((_Line(*line) for line in lines if line), key=lambda line: line.seconds(equal))
    ordinary = known[(len(known) - 1) // 2] if known else _Line(0.0, 1.0)
    return [_Line(*line) if line else ordinary for line in lines]


def _one_each(found: list[int], lines: Sequence[_Line]) -> list[int]:
    """Give everyone a sample, taken from whoever would finish last."""
    for rank, share in enumerate(found):
        givers = [i for i, held in enumerate(found) if held > 1]
        if not share and givers:
            found[max(givers, key=lambda i: lines[i].seconds(found[i]))] -= 1
            found[rank] = 1
    return found


def _may_stand(today: Sequence[int], caps: Sequence[float], batch: int) -> bool:
    """Whether these shares make up the batch and fit, with a sample for everyone if possible."""
    least = 1 if batch >= len(caps) else 0
    return sum(today) == batch and all(
        least <= share <= cap for share, cap in zip(today, caps, strict=True)
    )


def _check_fit(caps: Sequence[float], batch: int) -> None:
    if not caps:
        raise BadTrainingError("no worker has the training's state")
    if sum(caps) < batch:
        held = ", ".join(f"{cap:g}" for cap in caps)
        raise BadTrainingError(
            f"a global batch of {batch} samples does not fit: the memory of the {len(caps)} workers "
            f'holds {held}: {sum(caps):g} together; take micro_batch="auto", a smaller global batch or '
            "more workers"
        )
