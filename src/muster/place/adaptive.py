"""Adaptive: spread while there is room for what may come, pack as it runs out (Xiao, section 4).

What may come is learnt from the queue: the most devices that multi-device gangs have asked for at
one time, fading by half in `HALF_LIFE`. As long as the wholly free nodes could take that much, even
after every waiting one-device job has broken one of them, jobs are spread; below it they are packed.
To go back to spreading there must be one more of the largest gang's worth of whole nodes, so that one
start or one end does not flip the mood to and fro.
"""

from dataclasses import dataclass
from math import ceil

HALF_LIFE = 3600.0
"""s. "A deep learning job often lasts for hours" (Xiao, section 3): what was asked an hour ago is
still a fair guess at what will be asked, what was asked yesterday is not."""


@dataclass(frozen=True, slots=True)
class Mood:
    """What has been learnt: devices asked by multi-device gangs, the largest of them, when."""

    packing: bool = False
    demand: float = 0.0
    largest: float = 0.0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Pressure:
    """One look at the cluster: devices on wholly free nodes, a node's devices, and what waits: how
    many one-device jobs, and the devices of each larger gang."""

    whole: int
    per_node: int
    singles: int
    gangs: tuple[int, ...]


def settle(mood: Mood, pressure: Pressure, now: float) -> Mood:
    """The mood after one more look."""
    fade = 0.5 ** (max(0.0, now - mood.at) / HALF_LIFE)
    demand = max(float(sum(pressure.gangs)), mood.demand * fade)
    largest = max(float(max(pressure.gangs, default=0)), mood.largest * fade)
    band = _whole_nodes(largest, pressure.per_node) if mood.packing else 0
    # A cluster that was never asked for a gang has nothing to keep whole.
    left_whole = pressure.whole - pressure.singles * pressure.per_node
    packing = demand >= 1.0 and left_whole < demand + band
    return Mood(packing, demand, largest, now)


def _whole_nodes(devices: float, per_node: int) -> int:
    """Devices of the whole nodes that so many devices take: what one start breaks, one end frees."""
    return per_node * max(1, ceil(devices / per_node)) if per_node else 0
