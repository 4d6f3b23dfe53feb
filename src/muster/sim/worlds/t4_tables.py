"""Six models measured on nodes of four NVIDIA T4: seconds and gain of a step.

Source: the data of the Pollux artifact (Qiao et al., OSDI 2021; petuum/adaptdl, Apache-2.0), under the
rules of its evaluation. For a model, a placement (devices on each node) and a batch M over K devices:

    split   b samples at a time on each device and s further passes (accumulation), as in
            `perf.learnt.batches`; the batch actually used is K b (s + 1)
    time    T = t(b) + s (t(b) - sync(b))                                                   [s a step]
    gain    (var + sqr) / (var / scale + sqr), scale = batch used / smallest M0   [steps of M0 a step]

t, sync: of the exact placement, in its smallest rotation, linear in b; where not measured, linear over
(nodes, devices, b) through the means by those three, and the settings measured by number only.
var, sqr: of the current epoch, linear between the measured batches. An epoch ends at the least progress
of any measured batch at its end.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.files.profile.profile_file import shipped_profile
from muster.model.profile import ModelProfile
from muster.perf.learnt.batches import BatchRange
from muster.sim.worlds.interpolate import Array, Interpolation

EPOCHS = {"bert": 2, "cifar10": 100, "ncf": 10, "imagenet": 90, "deepspeech2": 80, "yolov3": 50}
"""Epochs after which a job ends, by model: the published evaluation's."""
LARGEST_LOCAL = {"yolov3": 8}
"""Largest batch of one device where it is not the largest measured: the published evaluation's."""
SINGLE = frozenset({"ncf"})
"""Models that run on one device only, whatever their batch."""
SHAPES = {"imagenet": "resnet50"}
"""The shipped profile of what is trained there."""
NODE = 4
"""Devices of a node there."""
NODES = 16
"""Nodes of the largest measured placement; wider ones count as that."""


class TableError(ValueError):
    """Unreadable tables, or a setting outside them."""


@dataclass(frozen=True, slots=True)
class T4Step:
    """A step: s, s of it synchronising, and the batch used."""

    seconds: float
    sync: float
    batch: int


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """Signal and noise of gradients, by batch (rows, ascending) and epoch (columns)."""

    batches: tuple[int, ...]
    squares: Array
    variances: Array

    def at(self, batch: int) -> tuple[Array, Array]:
        """Return (sqr, var) of a global batch, by epoch."""
        batches = self.batches
        if not batches[0] <= batch <= batches[-1]:
            span = f"{batches[0]} to {batches[-1]}"
            raise TableError(f"a batch of {batch} was not measured, only {span}")
        high = bisect_left(batches, batch)
        low = high if batches[high] == batch else high - 1
        part = (batch - batches[low]) / (batches[high] - batches[low]) if low < high else 0.0
        sqr, var = (
            (1 - part) * each[low] + part * each[high] for each in (self.squares, self.variances)
        )
        return sqr, var


@dataclass(frozen=True, slots=True, eq=False)
class T4Rows:
    """The measurements of one model, as read."""

    name: str
    placed: dict[tuple[int, ...], Array]
    """For each placement, in its smallest rotation: rows of (local batch, step, sync), ascending."""
    larger: Array
    """Rows of (nodes, devices, local batch, step, sync): more devices, by number only."""
    gradients: Gradients
    boundaries: tuple[float, ...]
    """Progress at the end of each epoch, in steps of the smallest batch."""


class T4Model:
    """One model's speed and gains; immutable, with cached answers."""

    def __init__(self, rows: T4Rows) -> None:
        self._rows = rows
        self.name = rows.name
        self.boundaries = rows.boundaries
        self.batches = rows.gradients.batches
        each_device = [float(batch) for each in rows.placed.values() for batch in each[:, 0]]
        most = LARGEST_LOCAL.get(rows.name, int(max(each_device)))
        self.range = BatchRange(self.batches[0], self.batches[-1], int(min(each_device)), most)
        self._larger: Interpolation | None = None
        self._steps: dict[tuple[tuple[int, ...], int], T4Step] = {}
        self._gains: dict[int, tuple[float, ...]] = {}
        self._noises: dict[int, tuple[float | None, ...]] = {}

    def __reduce__(self) -> tuple[type["T4Model"], tuple[T4Rows]]:
        """Send only what was read to another process."""
        return T4Model, (self._rows,)

    @property
    def shape(self) -> ModelProfile | None:
        """The shape of the network, where a shipped one is the same."""
        return shipped_profile(SHAPES[self.name]) if self.name in SHAPES else None

    def most(self, batch: int) -> int:
        """Return the most devices a job of this batch can use."""
        return 1 if self.name in SINGLE else max(1, batch // self.range.least_each)

    def step(self, shape: tuple[int, ...], batch: int) -> T4Step:
        """Return one step of a global batch on a placement, given as devices on each node."""
        key = (shape, batch)
        if key not in self._steps:
            (self._steps[key],) = self.steps(shape, (batch,))
        return self._steps[key]

    def steps(self, shape: tuple[int, ...], batches: Sequence[int]) -> list[T4Step]:
        """Return one step of each batch on a placement."""
        splits = [self.range.split(batch, sum(shape)) for batch in batches]
        at = np.array([split.at_once for split in splits], dtype=np.float64)
        return [
            T4Step(seconds + split.further * (seconds - sync), sync, split.batch)
            for split, (seconds, sync) in zip(splits, self._times(shape, at).tolist(), strict=True)
        ]

    def shapes(self, devices: int) -> list[tuple[int, ...]]:
        """Return placements of the devices: those measured, or one for each number of nodes."""
        measured = [shape for shape in self._rows.placed if sum(shape) == devices]
        nodes = range(-(-devices // NODE), min(devices, NODES) + 1)
        return measured or [_even(devices, each) for each in nodes]

    def gains(self, batch: int) -> tuple[float, ...]:
        """Return the worth of one step in steps of the smallest batch, by epoch."""
        if batch not in self._gains:
            sqr, var = self._rows.gradients.at(batch)
            gains = (var + sqr) / (var * self.range.smallest / batch + sqr)
            self._gains[batch] = tuple(gains.tolist())
        return self._gains[batch]

    def noises(self, batch: int) -> tuple[float | None, ...]:
        """Return Pollux' phi by epoch: samples at which the gradient's noise equals its signal.

        None: no signal was found in the noise.
        """
        if batch not in self._noises:
            both = zip(*(each.tolist() for each in self._rows.gradients.at(batch)), strict=True)
            self._noises[batch] = tuple(
                var / sqr * self.range.smallest if sqr > 0 else None for sqr, var in both
            )
        return self._noises[batch]

    def _times(self, shape: tuple[int, ...], at_once: Array) -> Array:
        """Return (step, sync) in s for each batch of one device, without accumulation."""
        rows = self._rows.placed.get(smallest_rotation(shape))
        if rows is None:
            return self._between(shape, at_once)
        if at_once.min() < rows[0, 0] or at_once.max() > rows[-1, 0]:
            raise TableError(f"{self.name}: batches of {at_once} a device were not measured")
        return np.stack([np.interp(at_once, rows[:, 0], rows[:, i]) for i in (1, 2)], axis=1)

    def _between(self, shape: tuple[int, ...], at_once: Array) -> Array:
        if self._larger is None:
            points = np.concatenate([_means(self._rows.placed), self._rows.larger])
            self._larger = Interpolation(points[:, :3], points[:, 3:])
        found = self._larger.along(min(len(shape), NODES), sum(shape), at_once)
        if np.isnan(found).any():
            raise TableError(f"{self.name} was not measured on a placement like {shape}")
        return found


def smallest_rotation(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the tables' key of a placement: a ring of nodes has no first one."""
    return min(shape[i:] + shape[:i] for i in range(len(shape)))


def _even(devices: int, nodes: int) -> tuple[int, ...]:
    """Spread devices evenly over nodes."""
    each, more = divmod(devices, nodes)
    return (each,) * (nodes - more) + (each + 1,) * more


def _means(placed: dict[tuple[int, ...], Array]) -> Array:
    """Return rows of (nodes, devices, local batch, step, sync), averaged over all such placements."""
    found: dict[tuple[int, int, float], list[tuple[float, float]]] = {}
    for shape, rows in placed.items():
        for batch, *times in rows.tolist():
            found.setdefault((len(shape), sum(shape), batch), []).append((times[0], times[1]))
    return np.array(
        [[*key, *(sum(t) / len(t) for t in zip(*found[key], strict=True))] for key in sorted(found)]
    )
