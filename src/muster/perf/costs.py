"""What a step is made of: computing, and what each byte and each piece costs on its way."""

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
    """The stages of one synchronisation: on the way out, and those that wait for all of these."""

    out: tuple[SyncStage, ...]
    back: tuple[SyncStage, ...] = ()

    def loads(self) -> dict[Place, Load]:
        """The load of the whole synchronisation on each edge."""
        return dict(at_once((*self.out, *self.back)).loads)


def trips(plan: Plan, shape: Shape, wiring: Wiring) -> Trips:
    """The stages of a plan's synchronisation on a shape."""
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
"""Bytes in which owners take and give parameters: 64k floats, as measured best in the notes."""


@dataclass(frozen=True, slots=True)
class Price:
    """Of a trip: s for each byte of gradients, for each piece, for each byte of one piece that goes
    through the other stages while the next is in the slowest, and once at the end."""

    per_byte: float = 0.0
    per_piece: float = 0.0
    through: float = 0.0
    once: float = 0.0
    tails: tuple[tuple[float, float], ...] = ()
    """Where chunks still come in at the end: s/byte to have sent everything, then s for the chunks."""

    def times(self, factor: float) -> "Price":
        """On links so many times as slow."""
        return Price(
            self.per_byte * factor,
            self.per_piece * factor,
            self.through * factor,
            self.once * factor,
            tuple((per_byte * factor, once * factor) for per_byte, once in self.tails),
        )

    def done(self, compute: float, pieces: Pieces) -> float:
        """Seconds until all pieces have made the trip, with so much computing beside them."""
        last = pieces.done(compute, self.per_byte, self.per_piece, self.through)
        for per_byte, once in self.tails:
            last = max(last, pieces.done(compute, per_byte, self.per_piece) + once)
        return last + self.once


def price(stages: Sequence[SyncStage], bandwidth: Callable[[Place], float]) -> Price:
    """What a trip through these stages costs.

    Pieces follow each other through the stages, so that one is in the second while the next is in the
    first: all go at the pace of the busiest link of all stages together, and one piece pays the rest.
    """
    if not stages:
        return Price()
    each = [_busiest(stage.loads, bandwidth) for stage in stages]
    pace = max(*each, _busiest(_shared(stages), bandwidth)) if len(stages) > 1 else each[0]
    waits = [stage.messages * stage.latency for stage in stages]
    tails = _tails((stage.last for stage in stages), bandwidth)
    return Price(pace, max(waits), max(0.0, sum(each) - pace), sum(waits) - max(waits), tails)


def _shared(stages: Sequence[SyncStage]) -> dict[Place, Load]:
    """What edges carry that more than one stage uses, all stages together."""
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
    """What the end costs at each edge, without those that another edge exceeds in both."""
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
    """A step of so much computing, with its transfers beside or after it, s."""
    if overlap is Overlap.NONE:
        return compute + out.done(0.0, pieces) + back.done(0.0, pieces)
    forward = FORWARD * compute
    return back.done(forward, pieces) + out.done(compute - forward, pieces)
