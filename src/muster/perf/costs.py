"""What a step is made of: computing, and what each byte and each piece costs on its way."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from muster.model.plan import Overlap, Plan, Sync
from muster.perf.overlap import FORWARD, Pieces
from muster.perf.rings import hierarchical, inside_tasks, ranks_of, ring
from muster.perf.servers import push_and_pull
from muster.perf.shape import Shape
from muster.perf.traffic import Load, Place, Stage, at_once
from muster.perf.wires import Wiring


@dataclass(frozen=True, slots=True)
class Trips:
    """The stages of one synchronisation: on the way out, and those that wait for all of these."""

    out: tuple[Stage, ...]
    back: tuple[Stage, ...] = ()

    def loads(self) -> dict[Place, Load]:
        """The load of the whole synchronisation on each edge."""
        return dict(at_once((*self.out, *self.back)).loads)


def trips(plan: Plan, shape: Shape, wiring: Wiring) -> Trips:
    """The stages of a plan's synchronisation on a shape."""
    if plan.sync is Sync.RING:
        return _made([ring(ranks_of(shape), shape, wiring)])
    if plan.sync is Sync.HIERARCHICAL:
        return _made(hierarchical(shape, wiring))
    push, pull = push_and_pull(plan, shape, wiring)
    inside = inside_tasks(shape, wiring)
    if plan.overlap is Overlap.BARRIER:
        return _made([inside, push], [pull])
    both = at_once([push, pull])
    return _made([inside, replace(both, messages=push.messages + pull.messages)])


def _made(out: Iterable[Stage], back: Iterable[Stage] = ()) -> Trips:
    return Trips(tuple(s for s in out if s.loads), tuple(s for s in back if s.loads))


CHUNK = 262_144
"""Bytes in which owners take and give parameters: 64k floats, as measured best in the notes."""


@dataclass(frozen=True, slots=True)
class Price:
    """Of a trip: s for each byte of gradients, for each piece, and once at the end."""

    per_byte: float = 0.0
    per_piece: float = 0.0
    once: float = 0.0

    def times(self, factor: float) -> "Price":
        """On links so many times as slow."""
        return Price(self.per_byte * factor, self.per_piece * factor, self.once * factor)


def price(stages: Iterable[Stage], bandwidth: Callable[[Place], float]) -> Price:
    """What stages cost that follow each other, each at the speed of its busiest link."""
    per_byte = per_piece = once = 0.0
    for stage in stages:
        per_byte += _busiest(stage.loads, bandwidth)
        per_piece += stage.messages * stage.latency
        once += CHUNK * _busiest(stage.last, bandwidth)
    return Price(per_byte, per_piece, once)


def _busiest(loads: Mapping[Place, Load], bandwidth: Callable[[Place], float]) -> float:
    return max((load.most / bandwidth(place) for place, load in loads.items()), default=0.0)


def step_seconds(compute: float, out: Price, back: Price, pieces: Pieces, overlap: Overlap) -> float:
    """A step of so much computing, with its transfers beside or after it, s."""
    total, count = float(pieces.bytes_on[0]), float(pieces.count_on[0])
    if overlap is Overlap.NONE:
        moved = (out.per_byte + back.per_byte) * total
        return compute + moved + (out.per_piece + back.per_piece) * count + out.once + back.once
    forward = FORWARD * compute
    backward = pieces.done(compute - forward, out.per_byte, out.per_piece)
    pulled = pieces.done(forward, back.per_byte, back.per_piece)
    return pulled + backward + out.once + back.once
