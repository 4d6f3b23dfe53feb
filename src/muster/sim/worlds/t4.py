"""The truth of a job that trains one of the six models measured on T4s (see t4_tables).

Work is progress, counted in steps of the model's smallest batch. An epoch has one gain, so a job's pace
holds until its end. The oracle counts in seconds on one device: what is left is exact there, and a
speed is the speed-up of packed devices, on nodes of four, over all that is left. Speeds are kept for a
hundred points of a job's progress, so that most answers share theirs.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from muster.model.outlook import Outlook, Speed, Table
from muster.perf.learnt.held import Held, packed
from muster.perf.learnt.step_report import StepReport
from muster.sim.truth import Ideal, JobPace
from muster.sim.worlds.interpolate import Array
from muster.sim.worlds.t4_tables import NODE, NODES, T4Model

GRID = 50
"""Batches tried between smallest and largest, evenly in logarithm: as many as Pollux'."""
DEVICES = NODE * NODES
"""The most devices that the tables cover."""
PARTS = 100
"""Least number of pieces of a job's progress, each with one speed: over 1 % of a job, relative speeds
change by less than measured steps scatter."""
EDGE = 1e-9
"""An epoch is over when all but this part is done: sums of floats may end just short of it."""


@dataclass(frozen=True, slots=True)
class TrainedT4:
    """The truth of one job: its model, its own batch, and whether the batch may change."""

    model: T4Model
    batch: int
    free: bool = False

    @property
    def work(self) -> float:
        """All its progress, in steps of the model's smallest batch."""
        return self.model.boundaries[-1]

    def most(self, cap: int | None = None) -> int:
        """Return the most devices it can use."""
        most = self.model.most(self.model.range.largest if self.free else self.batch)
        return min(most, DEVICES if cap is None else cap)

    def pace(self, crew: Held, done: float) -> JobPace:
        epoch = _at(self.model.boundaries, done)
        timed = self.model.step(crew.shape, crew.batch or self.batch)
        rate = self.model.gains(timed.batch)[epoch] / timed.seconds
        return JobPace(rate, self.model.boundaries[epoch])

    def shown(self, crew: Held, done: float) -> StepReport:
        epoch = _at(self.model.boundaries, done)
        timed = self.model.step(crew.shape, crew.batch or self.batch)
        gain, noise = self.model.gains(timed.batch)[epoch], self.model.noises(timed.batch)[epoch]
        return StepReport(timed.seconds, timed.sync, gain, noise)

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        """Every epoch on the best placement that was measured, or can be told from those."""
        return _ideal(self.model, None if self.free else self.batch, fewest, most)

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        """Seconds left on one device, and how many times sooner it would be on packed ones."""
        way = _way(self.model, self.most(), None if self.free else self.batch)
        piece = _at(way.ends, done)
        alone = way.after[piece] + max(way.ends[piece] - done, 0.0) / way.rates[piece]
        speed = way.speeds[piece]
        return Outlook(alone, speed, here=None if crew is None else self._here(crew, done, speed))

    def _here(self, crew: Held, done: float, speed: Speed) -> float:
        """Return the speed of packed devices, corrected by the pace of this placement now."""
        best = speed.batch(crew.device_type, crew.workers)
        close = Held(crew.device_type, packed(crew.workers, NODE), batch=best)
        ratio = self.pace(crew, done).rate / self.pace(close, done).rate
        return speed.rate(crew.device_type, crew.workers) * ratio


def _at(ends: tuple[float, ...], done: float) -> int:
    """Return the piece, or epoch, of a job that has done this much."""
    return min(bisect_right(ends, done * (1 + EDGE)), len(ends) - 1)


@dataclass(frozen=True, slots=True)
class _Way:
    """A job's progress in pieces of constant pace: where each ends, and what is then left."""

    ends: tuple[float, ...]
    rates: tuple[float, ...]
    """Progress per s on one device in each piece."""
    after: tuple[float, ...]
    """s on one device from the end of each piece to the end of the job."""
    speeds: tuple[Speed, ...]
    """From the start of each piece to the end of the job."""


@lru_cache(maxsize=256)
def _way(model: T4Model, most: int, batch: int | None) -> _Way:
    """Return the progress with this batch, or with the best of each epoch."""
    choices = [batch] if batch is not None else _choices(model)
    columns = [_column(model, packed(devices, NODE), choices) for devices in range(1, most + 1)]
    each = -(-PARTS // len(model.boundaries))
    rates = np.stack([rates for rates, _ in columns], axis=1).repeat(each, axis=0)
    batches = [found for found in zip(*(b for _, b in columns), strict=True) for _ in range(each)]
    epochs = np.diff(model.boundaries, prepend=0.0)
    seconds = epochs.repeat(each)[:, None] / each / rates
    left = np.cumsum(seconds[::-1], axis=0)[::-1]
    tables = [tuple(row) for row in (left[:, :1] / left).tolist()]
    ends = [
        end - length * (each - i - 1) / each
        for end, length in zip(model.boundaries, epochs.tolist(), strict=True)
        for i in range(each)
    ]
    return _Way(
        tuple(ends),
        tuple(rates[:, 0].tolist()),
        tuple((left - seconds)[:, 0].tolist()),
        tuple(map(Table, tables) if batch is not None else map(Table, tables, batches)),
    )


@lru_cache(maxsize=1024)
def _ideal(model: T4Model, batch: int | None, fewest: int, most: int) -> Ideal:
    """Return the best of all numbers of devices, placements and batches, epoch by epoch."""
    choices = [batch] if batch is not None else _choices(model)
    best = [
        np.max([_column(model, shape, choices)[0] for shape in model.shapes(devices)], axis=0)
        for devices in range(fewest, most + 1)
    ]
    epochs = np.diff(model.boundaries, prepend=0.0)
    counts = np.arange(fewest, most + 1)[:, None]
    return Ideal(
        float((epochs / np.max(best, axis=0)).sum()),
        float((epochs * np.min(counts / np.array(best), axis=0)).sum()),
    )


def _column(model: T4Model, shape: tuple[int, ...], choices: list[int]) -> tuple[Array, list[int]]:
    """Return the best rate, and its batch, in each epoch on a placement."""
    least = sum(shape) * model.range.least_each
    fitting = [each for each in choices if each >= least] or choices[-1:]
    one = len(fitting) == 1
    timed = [model.step(shape, fitting[0])] if one else model.steps(shape, fitting)
    rates = np.array([model.gains(t.batch) for t in timed]) / [[t.seconds] for t in timed]
    best = rates.argmax(axis=0)
    return rates.max(axis=0), [fitting[i] for i in best]


def _choices(model: T4Model) -> list[int]:
    """Return the measured batches and an even grid in logarithm."""
    return sorted({*model.range.choices(GRID), *model.batches})
