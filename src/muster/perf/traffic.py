"""The transfers of one synchronisation on the links they cross (KAIST, seed 001).

A synchronisation is a few stages that follow each other. Inside a stage all transfers run at once, so
each byte of gradients takes the time of the busiest link (s/byte):

    tau = max over links of load / bandwidth        load in bytes per byte of gradients, each way

For a ring this is exact under max-min fairness, since it moves in lock-step at its slowest hop; for
parameter servers with small pieces it is the bound that pipelining reaches.
`benchmarks/support/judge` replays the same piece by piece, slowly.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.perf.wires import LinkClass

Place = tuple[LinkClass, int, int]
"""An edge of a shape: its class, the number of its host (rack, domain), and its number there."""


class Load(NamedTuple):
    """Bytes per byte of gradients that leave and enter through an edge."""

    out: float
    into: float

    @property
    def most(self) -> float:
        """The busier direction."""
        return max(self.out, self.into)


@dataclass(frozen=True, slots=True)
class SyncStage:
    """Transfers that run at once: the load on each edge, and the consecutive messages of a piece."""

    loads: Mapping[Place, Load]
    messages: int
    latency: float
    """Of the slowest message, s."""
    last: Mapping[Place, "Last"] = field(default_factory=dict)
    """What still arrives through each edge when everything has been sent."""


class Last(NamedTuple):
    """The end of a synchronisation by owners at an edge: bytes (per byte of gradients) sent before the
    last chunks are requested, and how many chunks then still arrive."""

    sent: float
    chunks: int


IDLE = SyncStage({}, 0, 0.0)


class Sums:
    """Sums of loads in each direction of each edge."""

    def __init__(self) -> None:
        self._out: defaultdict[Place, float] = defaultdict(float)
        self._into: defaultdict[Place, float] = defaultdict(float)

    def out(self, place: Place, load: float) -> None:
        self._out[place] += load

    def into(self, place: Place, load: float) -> None:
        self._into[place] += load

    def loads(self) -> dict[Place, Load]:
        out, into = self._out, self._into
        return {place: Load(out.get(place, 0.0), into.get(place, 0.0)) for place in out | into}


def at_once(stages: Iterable[SyncStage]) -> SyncStage:
    """Merge stages that run side by side."""
    busy = [stage for stage in stages if stage.loads]
    if len(busy) <= 1:
        return busy[0] if busy else IDLE
    sums = Sums()
    for stage in busy:
        for place, (out, into) in stage.loads.items():
            sums.out(place, out)
            sums.into(place, into)
    messages = max(stage.messages for stage in busy)
    return SyncStage(sums.loads(), messages, max(stage.latency for stage in busy))
