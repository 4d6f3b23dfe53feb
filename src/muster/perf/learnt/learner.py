"""What is believed of live jobs, as outlooks, from what they and their like have shown so far.

Jobs of one application share what they have shown; one without an application is its own. Work left is
counted in seconds on one device of the first type, as believed:

    left = sum over the way left of (s of a step there) / (work of a step), on one device         [s]
    rate = that over the same sum for so many devices, packed on as few nodes as can be           [s/s]

With a free batch each stretch of the way is taken at the batch that is best for it. Nobody knows what a
job does on many more devices than any of its like has had: speeds are told for up to twice as many (as
Pollux explores), at least for one node, and stay level beyond.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, hypot, log
from typing import Any, TypeVar

import numpy as np

from muster.model.job import Job
from muster.model.outlook import Outlook, Table
from muster.perf.learnt.batches import BatchRange, Split, gain
from muster.perf.learnt.costs import Array, Costs
from muster.perf.learnt.lengths import FIRST, Left, Lengths
from muster.perf.learnt.steps import Place, Steps
from muster.perf.learnt.tables import ByType, Tuned
from muster.perf.learnt.way import Way, stretch

T = TypeVar("T")
Batches = tuple[int | None, ...]
"""Global batches to choose from; None: the job's own, whatever it is."""

GROWTH = 2
"""Times as many devices as were ever seen that speeds are told for: Pollux' limit."""
CHOICES = 20
"""Batches weighed against each other: over a range of 32 each is a fifth larger than the one before,
as finely as a step's time is known."""
KEPT = 4096
"""Answers kept at most."""
WEIGHT = 0.5
"""Of a job's newest report in the mean of those from one crew."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a job runs on: the type of its devices, how many on each node, and the batch it was told."""

    device_type: str
    shape: tuple[int, ...]
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a job measures of itself: s of a step, and of it synchronising; a step's work; its noise."""

    step: float
    sync: float | None = None
    gain: float = 1.0
    noise: float | None = None


@dataclass(slots=True)
class _Kind:
    """What jobs of one application have shown."""

    name: str
    range: BatchRange | None
    steps: dict[str, Steps] = field(default_factory=dict)
    """By device type."""
    noise: Way = field(default_factory=Way)
    """Gradient noise in samples."""
    worth: Way = field(default_factory=Way)
    """Work of a sample, where noise or range are not known."""
    lengths: Lengths = field(default_factory=Lengths)
    reached: float = 0.0
    """The most work that any of them has done."""

    @property
    def way(self) -> Way:
        return self.noise if self.noise else self.worth


class Learner:
    """Learns from reports, and tells what is to be expected."""

    def __init__(
        self,
        node_devices: Mapping[str, int],
        ranges: Mapping[str, BatchRange] | None = None,
        *,
        free_batch: bool = False,
    ) -> None:
        """Devices on a node by type; limits of batches by application; whether batches may change."""
        self._node_devices = dict(node_devices)
        self._ranges = dict(ranges or {})
        self._free = free_batch
        self._kinds: dict[str, _Kind] = {}
        self._all = Lengths()
        """Of all jobs that have ended, in s on one device."""
        self._own: dict[int, tuple[Held, float]] = {}
        """What each live job reported from last, and its mean step there."""
        self._memo: dict[tuple[object, ...], tuple[object, Any]] = {}
        """What was worked out, and what of: it holds as long as that is so."""

    def watch(self, job: Job, held: Held, report: Report, done: float) -> None:
        """A job that has done so much work, on what it holds, reported this."""
        kind = self._kind(job)
        kind.reached = max(kind.reached, done)
        split = _split(kind.range, held.batch or job.batch, sum(held.shape))
        steps = kind.steps.setdefault(held.device_type, Steps())
        steps.add(Place(held.shape, split), report.step, report.sync)
        if kind.range is not None and report.noise is not None and report.noise > 0:
            kind.noise.add(done, report.noise)
        elif report.gain > 0:
            kind.worth.add(done, report.gain / split.batch)
        before, mean = self._own.get(job.number, (None, report.step))
        if before == held:
            self._own[job.number] = held, exp(WEIGHT * log(report.step) + (1 - WEIGHT) * log(mean))
        else:
            self._own[job.number] = held, report.step

    def ended(self, job: Job, work: float) -> None:
        """A job has ended after so much work."""
        kind = self._kind(job)
        self._own.pop(job.number, None)
        if kind.steps:
            self._all.add(self._cost(job, kind, self._types(job)[0]).alone(0.0, work))
        kind.lengths.add(work)
        if job.application is None:
            del self._kinds[kind.name]

    def forget(self, job: Job) -> None:
        """A job is gone without having come to its end: how long it was says nothing."""
        self._own.pop(job.number, None)

    def outlook(self, job: Job, held: Held | None, done: float) -> Outlook:
        """What is believed of a live job that has done so much and runs on this."""
        kind, first = self._kind(job), self._types(job)[0]
        costs = self._cost(job, kind, first)
        if job.work is not None:
            end = max(job.work, done)
            left = Left(costs.alone(done, end), 0.0)
        elif kind.lengths:
            work = kind.lengths.left(done)
            end = done + work.middle
            left = Left(costs.alone(done, end), work.spread)
        else:
            end = max(done, kind.reached)
            passed, reached = (costs.alone(0.0, each) if kind.steps else 0.0 for each in (done, end))
            left = self._all.coarse(passed, reached, FIRST)
        speed = self._speed(job, kind, stretch(done), stretch(end))
        spread = hypot(left.spread, self._spread(job, kind, first))
        return Outlook(left.middle, speed, spread, self._here(job, kind, held, speed))

    def _here(self, job: Job, kind: _Kind, held: Held | None, speed: ByType) -> float | None:
        """The speed measured on the present crew: as told for so many, but for what its step shows."""
        own = self._own.get(job.number)
        if held is None or own is None or own[0] != held:
            return None
        devices = sum(held.shape)
        steps, batch = self._steps(kind, held.device_type), held.batch or job.batch
        key = ("step", kind.name, held.device_type, devices, batch)
        predicted, _ = self._kept(
            key, steps.known(), lambda: self._seconds(kind, held.device_type, (batch,), (devices,))
        )
        return speed.rate(held.device_type, devices) * float(predicted[0, 0]) / own[1]

    def _speed(self, job: Job, kind: _Kind, begin: int, end: int) -> ByType:
        """Times sooner than on one device of the first type, over some stretches of the way."""
        every = {each: self._cost(job, kind, each) for each in self._types(job)}
        key = ("speed", kind.name, job.batch, job.workers.most, job.device_types, begin, end)
        return self._kept(key, tuple(every.values()), lambda: _compared(every, begin, end))

    def _cost(self, job: Job, kind: _Kind, device_type: str) -> Costs:
        steps = self._steps(kind, device_type)
        known = max(GROWTH * steps.widest, self._node_devices[device_type])
        devices = range(1, min(job.workers.most, known) + 1)
        batches = self._batches(job, kind)
        key = ("cost", kind.name, device_type, batches, len(devices))
        return self._kept(
            key,
            (steps.known(), kind.way.version),
            lambda: Costs(batches, self._rates(kind, device_type, batches, devices)),
        )

    def _rates(self, kind: _Kind, device_type: str, batches: Batches, devices: Sequence[int]) -> Array:
        """Work per s with each batch on so many devices in each stretch."""
        key = ("seconds", kind.name, device_type, batches, len(devices))
        version = self._steps(kind, device_type).known()
        seconds, used = self._kept(
            key, version, lambda: self._seconds(kind, device_type, batches, devices)
        )
        values = np.array(kind.way.values() if kind.way else [1.0])
        if kind.range is None or not kind.noise:
            return np.asarray((used / seconds)[:, :, None] * values, dtype=np.float64)
        gains = gain(values, kind.range.smallest, used[:, :, None])
        return np.asarray(gains / seconds[:, :, None], dtype=np.float64)

    def _seconds(
        self, kind: _Kind, device_type: str, batches: Batches, devices: Sequence[int]
    ) -> tuple[Array, Array]:
        """s of a step with each batch on so many packed devices, and the batch really used.

        Endless where a batch is too small for so many; the largest is for all.
        """
        node = self._node_devices.get(device_type, max(devices))
        splits = [[_split(kind.range, batch, k) for k in devices] for batch in batches]
        places = [Place(_packed(each.devices, node), each) for row in splits for each in row]
        steps = self._steps(kind, device_type)
        seconds = steps.seconds(places, splits[-1][0].at_once).reshape(len(batches), len(devices))
        _hope(seconds, devices, steps.widest)
        if kind.range is not None and len(batches) > 1:
            small = np.array([[each.at_once < kind.range.least_each for each in row] for row in splits])
            small[-1] = False
            seconds[small] = np.inf
        return seconds, np.array([[each.batch for each in row] for row in splits], dtype=np.float64)

    def _spread(self, job: Job, kind: _Kind, device_type: str) -> float:
        """Of a step on as many devices as were seen."""
        steps, batch = self._steps(kind, device_type), self._batches(job, kind)[-1]
        devices = max(1, min(steps.widest, job.workers.most))
        place = Place(
            _packed(devices, self._node_devices[device_type]), _split(kind.range, batch, devices)
        )
        key = ("spread", kind.name, device_type, devices, batch)
        return self._kept(key, steps.known(), lambda: steps.spread(place))

    def _batches(self, job: Job, kind: _Kind) -> Batches:
        if not self._free or kind.range is None:
            return (job.batch,)
        return kind.range.choices(CHOICES)

    def _kind(self, job: Job) -> _Kind:
        name = job.application if job.application is not None else f"job {job.number}"
        if name not in self._kinds:
            self._kinds[name] = _Kind(name, self._ranges.get(name))
        return self._kinds[name]

    def _types(self, job: Job) -> tuple[str, ...]:
        allowed = tuple(each for each in job.device_types if each in self._node_devices)
        return allowed or tuple(self._node_devices)

    def _steps(self, kind: _Kind, device_type: str) -> Steps:
        """What was shown on the type; where nothing was, on the one that most is known of."""
        own = kind.steps.get(device_type)
        if own is not None or not kind.steps:
            return own or _NOTHING
        return max(kind.steps.values(), key=lambda each: each.widest)

    def _kept(self, key: tuple[object, ...], state: object, make: Callable[[], T]) -> T:
        known = self._memo.get(key)
        if known is None or known[0] != state:
            if len(self._memo) > KEPT:
                self._memo.clear()
            known = self._memo[key] = state, make()
        found: T = known[1]
        return found


_NOTHING = Steps()
"""Of an application that has shown nothing."""


def _compared(every: Mapping[str, Costs], begin: int, end: int) -> ByType:
    """Tables by type: how many times sooner than one device of the first type."""
    seconds = {name: costs.between(begin, end) for name, costs in every.items()}
    alone = float(next(iter(seconds.values()))[0])
    tables: list[tuple[str, Table | Tuned]] = []
    for name, costs in every.items():
        rates = tuple((alone / seconds[name]).tolist())
        batches = costs.best(begin)
        tables.append((name, Table(rates) if batches is None else Tuned(rates, batches)))
    return ByType(tuple(tables))


def _hope(seconds: Array, devices: Sequence[int], widest: int) -> None:
    """Tell steps on more devices than were ever tried as if these scaled perfectly.

    As Pollux does with what it has not seen (its unknown costs are 0 until then). The form alone may
    believe that more would not help, nobody would ever try, and it would believe so for ever.
    """
    at = widest - devices[0]
    if 0 <= at < len(devices):
        perfect = seconds[:, at : at + 1] * widest / np.array(devices[at:])
        seconds[:, at:] = np.minimum(seconds[:, at:], perfect)


def _split(limits: BatchRange | None, batch: int | None, devices: int) -> Split:
    """How a batch is dealt; one whose limits are not known in one pass, an unknown one evenly."""
    if batch is None:
        return Split(devices, 1, 0)
    if limits is None:
        return Split(devices, -(-batch // devices), 0)
    return limits.split(batch, devices)


def _packed(devices: int, node: int) -> tuple[int, ...]:
    full, rest = divmod(devices, node)
    return (node,) * full + ((rest,) if rest else ())
