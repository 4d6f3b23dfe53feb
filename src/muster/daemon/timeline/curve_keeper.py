"""Curves of live jobs, on their way to the store: written with the next facts, not one by one."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite

from muster.daemon.learn import Beliefs
from muster.store.batch import CurvePoint

LOSS = "loss"
POINTS = 512
"""Points of a curve that are offered before only every second is."""
UNWRITTEN = 20_000
"""Most points that wait while the store cannot be written; the oldest go first."""


@dataclass(slots=True)
class Sampled:
    """Which steps of one curve are kept."""

    stride: int = 1
    steps: int = 0
    """Steps seen."""
    kept: int = 0
    last: tuple[int, float, float] = (-1, 0.0, 0.0)
    """Step, value and moment of the last one seen."""
    written: int = -1
    """The last step kept."""

    def see(self, step: int, value: float, now: float) -> bool:
        """Take in a step; return whether it is kept."""
        self.last = step, value, now
        self.steps += 1
        if self.steps % self.stride:
            return False
        self.written, self.kept = step, self.kept + 1
        if self.kept > POINTS:
            self.stride, self.kept = 2 * self.stride, self.kept // 2
        return True


class CurveKeeper:
    """Takes in what trainings report, and hands out the points to store."""

    def __init__(self, beliefs: Beliefs) -> None:
        self._beliefs = beliefs
        self._curves: dict[int, dict[str, Sampled]] = {}
        self._unwritten: deque[CurvePoint] = deque(maxlen=UNWRITTEN)

    def hear_step(self, number: int, step: int, loss: float, now: float) -> None:
        """Take in the loss of a step; the other workers say the same of it."""
        curve = self._curve(number, LOSS)
        if step != curve.last[0] and isfinite(loss) and curve.see(step, loss, now):
            self._unwritten.append(self._point(number, LOSS, curve))

    def hear_metrics(self, number: int, metrics: Mapping[str, float], epochs: int, now: float) -> None:
        """Take in metrics that a script reports: at the step of its training, if it tells any."""
        step = self._beliefs.trained(number)[0] or epochs
        for what, value in metrics.items():
            curve = self._curve(number, what)
            if isfinite(value) and curve.see(step, value, now):
                self._unwritten.append(self._point(number, what, curve))

    def latest(self, number: int) -> list[CurvePoint]:
        """Return the last points of a live job's curves that are not stored."""
        curves = self._curves.get(number, {})
        return [
            self._point(number, what, curve)
            for what, curve in curves.items()
            if curve.last[0] != curve.written and curve.steps
        ]

    def take(self, ended: Collection[int]) -> tuple[CurvePoint, ...]:
        """Hand out what is to be stored; of jobs that have ended, their last points, too."""
        points = list(self._unwritten)
        self._unwritten.clear()
        return (*points, *(point for number in ended for point in self.latest(number)))

    def give_back(self, points: Iterable[CurvePoint]) -> None:
        """Keep points that could not be stored."""
        self._unwritten = deque([*points, *self._unwritten], UNWRITTEN)

    def forget(self, number: int) -> None:
        """Drop what is kept of a job that has ended."""
        self._curves.pop(number, None)

    def _curve(self, number: int, what: str) -> Sampled:
        return self._curves.setdefault(number, {}).setdefault(what, Sampled())

    def _point(self, number: int, what: str, curve: Sampled) -> CurvePoint:
        step, value, at = curve.last
        _, samples, workers = self._beliefs.trained(number)
        return CurvePoint(number, what, step, at, value, samples, workers)
