"""Batches on numbers of devices: where an application's steps are asked for, again and again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.perf.learnt.batches import Array, Split
from muster.perf.learnt.held import packed
from muster.perf.learnt.steps import PlacedSplit, Places

ALWAYS = np.iinfo(np.int64).max
"""Samples on a device, of the largest batch: it counts even where it is too small for the devices."""


@dataclass(frozen=True, slots=True, eq=False)
class BatchGrid:
    """Each batch on each number of devices, packed on as few nodes as possible."""

    places: Places
    """(batches x devices)."""
    used: Array
    """(batches, devices): the batch actually used."""
    at_once: npt.NDArray[np.int64]
    """(batches, devices): samples at a time on each device."""
    whole: int
    """The same of the largest batch on the fewest devices."""


def grid_of(
    split: Callable[[int | None, int], Split],
    batches: Sequence[int | None],
    devices: Sequence[int],
    node: int,
) -> BatchGrid:
    """Return these batches, split so, on these numbers of devices, `node` of them on a node."""
    rows = [[split(batch, count) for count in devices] for batch in batches]
    places = [PlacedSplit(packed(each.devices, node), each) for row in rows for each in row]
    at_once = np.array([[each.at_once for each in row] for row in rows], dtype=np.int64)
    at_once[-1] = ALWAYS
    used = np.array([[each.batch for each in row] for row in rows], dtype=np.float64)
    return BatchGrid(Places.of(places), used, at_once, rows[-1][0].at_once)


def hope(seconds: Array, devices: Sequence[int], widest: int, upto: int) -> None:
    """Assume perfect scaling from the most devices ever tried up to some more, as Pollux does.

    The form alone may predict that more would not help; then nobody tries, and it never learns. Nor is
    the better end of what it holds probable enough: with one standard deviation a drawn workload of
    `benchmarks/sim_t4.py` took 1.3 times as long as with an oracle.
    """
    at = widest - devices[0]
    if 0 <= at < len(devices):
        most = np.minimum(np.array(devices[at:]), upto)
        perfect = seconds[:, at : at + 1] * widest / most
        seconds[:, at:] = np.minimum(seconds[:, at:], perfect)
