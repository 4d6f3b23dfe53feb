"""Every transfer that one synchronisation needs, laid on the links it crosses (KAIST, seed 001).

A synchronisation is a few stages that follow each other. Inside a stage all transfers run at once and
share their links, so that for each byte of gradients it takes the time of its busiest link (s/byte):

    tau = max over links of load / bandwidth        load in bytes per byte of gradients, each way

For a ring this is exact under max-min fairness, since a ring moves in lock-step at its slowest hop; for
parameter servers with pieces small against the whole it is the bound that pipelining reaches.
`replay` does the same piece by piece, and slowly.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.perf.wires import LinkClass

Place = tuple[LinkClass, int, int]
"""One edge of a shape: its class, the number of its host (rack, domain), and which one there."""


@dataclass(frozen=True, slots=True)
class Load:
    """Bytes per byte of gradients that leave and enter through an edge."""

    out: float
    into: float

    @property
    def most(self) -> float:
        """The busier way."""
        return max(self.out, self.into)

    def plus(self, other: "Load") -> "Load":
        """Both at once."""
        return Load(self.out + other.out, self.into + other.into)


NOTHING = Load(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Stage:
    """Transfers that run at once: the load on each edge, and the messages of each piece."""

    loads: Mapping[Place, Load]
    messages: int
    """That follow each other."""
    latency: float
    """Of the slowest of them, s."""


IDLE = Stage({}, 0, 0.0)


class Sums:
    """Loads being added up, each way of each edge."""

    def __init__(self) -> None:
        self._out: defaultdict[Place, float] = defaultdict(float)
        self._into: defaultdict[Place, float] = defaultdict(float)

    def out(self, place: Place, load: float) -> None:
        """Load that leaves."""
        self._out[place] += load

    def into(self, place: Place, load: float) -> None:
        """Load that enters."""
        self._into[place] += load

    def loads(self) -> dict[Place, Load]:
        """The sums, without edges that carry nothing."""
        places = dict.fromkeys((*self._out, *self._into))
        found = {place: Load(self._out[place], self._into[place]) for place in places}
        return {place: load for place, load in found.items() if load.most > 0}


def at_once(stages: Iterable[Stage]) -> Stage:
    """Several stages as one: they run side by side."""
    loads: dict[Place, Load] = {}
    messages, latency = 0, 0.0
    for stage in stages:
        for place, load in stage.loads.items():
            loads[place] = loads.get(place, NOTHING).plus(load)
        messages, latency = max(messages, stage.messages), max(latency, stage.latency)
    return Stage(loads, messages, latency)
