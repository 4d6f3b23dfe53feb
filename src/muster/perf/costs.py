"""The cost of a step: computing, and what each byte and each piece costs on its way."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from muster.model.plan import Overlap, Plan, Sync
from muster.perf.overlap import FORWARD, Pieces
from muster.perf.rings import hierarchical, inside_tasks, ranks_of, ring
from muster.perf.servers import both_at_once, push_and_pull
from muster.perf.shape import Shape
from muster.perf.traffic import Last, Load, Place, SyncStage, at_once
from muster.perf.wires import Wiring


@dataclass(frozen=True, slots=True)
class Trips:
    """The stages of one synchronisation: out, and those that start when all of these are done."""

    out: tuple[SyncStage, ...]
    back: tuple[SyncStage, ...] = ()

    def loads(self) -> dict[Place, Load]:
        """Return the total load on each edge."""
        return dict(at_once((*self.out, *self.back)).loads)


def trips(plan: Plan, shape: Shape, wiring: Wiring) -> Trips:
    """Return the stages of a plan's synchronisation on a shape."""
    if plan.sync is Sync.RING:
        return _made([ring(ranks_of(shape), shape, wiring)])
    if plan.sync is Sync.HIERARCHICAL:
        return _made(hierarchical(shape, wiring))
    inside = inside_tasks(shape, wiring)
    if plan.overlap is Overlap.BARRIER:
        push, pull = push_and_pull(plan, shape, wiring)
        return _made([inside, push], [pull])
    return _made([inside, both_at_once(plan, shape, wiring)])


def _made(out: Iterable[SyncStage], back: Iterable[SyncStage] = ()) -> Trips:
    return Trips(tuple(s for s in out if s.loads), tuple(s for s in back if s.loads))


CHUNK = 262_144
"""Bytes of the chunks in which owners exchange parameters: 64k floats, measured best in the notes."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a trip: s per byte of gradients, per piece, per byte of the one piece that passes
    the other stages while the next is in the slowest, and once at the end."""

    per_byte: float = 0.0
    per_piece: float = 0.0
    through: float = 0.0
    once: float = 0.0
    tails: tuple[tuple[float, float], ...] = ()
    """Where chunks still arrive at the end: s/byte to send everything, then s for the chunks."""

    def times(self, factor: float) -> "Price":
        """Return the price on links slower by a factor."""
        return Price(
            self.per_byte * factor,
            self.per_piece * factor,
            self.through * factor,
            self.once * factor,
            tuple((per_byte * factor, once * factor) for per_byte, once in self.tails),
        )

    def done(self, compute: float, pieces: Pieces) -> float:
        """Return the seconds until all pieces have made the trip, beside `compute` s of computing."""
        last = pieces.done(compute, self.per_byte, self.per_piece, self.through)
        for per_byte, once in self.tails:
            last = max(last, pieces.done(compute, per_byte, self.per_piece) + once)
        return last + self.once


def price(stages: Sequence[SyncStage], bandwidth: Callable[[Place], float]) -> Price:
    """Return the price of a trip through these stages.

    Pieces are pipelined through the stages: all move at the pace of the busiest link over all stages,
    and one piece pays the rest.
    """
    if not stages:
        return Price()
    each = [_busiest(stage.loads, bandwidth) for stage in stages]
    pace = max(*each, _busiest(_shared(stages), bandwidth)) if len(stages) > 1 else each[0]
    waits = [stage.messages * stage.latency for stage in stages]
    tails = _tails((stage.last for stage in stages), bandwidth)
    return Price(pace, max(waits), max(0.0, sum(each) - pace), sum(waits) - max(waits), tails)


def _shared(stages: Sequence[SyncStage]) -> dict[Place, Load]:
    """Return the summed load of the edges that more than one stage uses."""
    found = {}
    for i, stage in enumerate(stages):
        for place in stage.loads:
            if any(place in later.loads for later in stages[i + 1 :]):
                loads = [each.loads[place] for each in stages if place in each.loads]
                found[place] = Load(sum(x.out for x in loads), sum(x.into for x in loads))
    return found


def _tails(
    lasts: Iterable[Mapping[Place, Last]], bandwidth: Callable[[Place], float]
) -> tuple[tuple[float, float], ...]:
    """Return the cost of the end at each edge, without those that another exceeds in both."""
    found = {
        (sent / bandwidth(place), chunks * CHUNK / bandwidth(place))
        for last in lasts
        for place, (sent, chunks) in last.items()
    }
    worst: list[tuple[float, float]] = []
    for per_byte, once in sorted(found, reverse=True):
        if not worst or once > worst[-1][1]:
            worst.append((per_byte, once))
    return tuple(worst)


def _busiest(loads: Mapping[Place, Load], bandwidth: Callable[[Place], float]) -> float:
    return max((load.most / bandwidth(place) for place, load in loads.items()), default=0.0)


def step_seconds(compute: float, out: Price, back: Price, pieces: Pieces, overlap: Overlap) -> float:
    """Return the seconds of a step with its transfers beside or after its computing."""
    if overlap is Overlap.NONE:
        return compute + out.done(0.0, pieces) + back.done(0.0, pieces)
    forward = FORWARD * compute
    return back.done(forward, pieces) + out.done(compute - forward, pieces)
