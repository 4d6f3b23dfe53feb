"""A step laid out as streams and gates, before it is played (see `fair`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.perf.estimate import Unknown
from muster.perf.history.links import LinkEstimate
from muster.perf.rings import Rank, ring
from muster.perf.shape import Shape
from muster.perf.traffic import Load, Place
from muster.perf.wires import LinkClass, Wiring
from support.judge.fair import Course, Gates, Item, Stream, Uses, Way, run

Piece = tuple[float, float]
"""Bytes of gradients that travel together, and the part of the backward pass after which they can."""
NOTHING = -1
"""The gate of an item that waits for none, or reports to none."""


@dataclass(slots=True)
class Script:
    """What is to be played."""

    shape: Shape
    wiring: Wiring
    pieces: Sequence[Piece]
    gates: Gates = field(default_factory=lambda: Gates([], []))
    streams: list[Stream] = field(default_factory=list)

    def ring(self, ranks: Sequence[Rank], after: Sequence[int], then: Sequence[int]) -> None:
        """A ring that moves piece by piece, each after a gate and reporting to another."""
        stage, n = ring(ranks, self.shape, self.wiring), len(ranks)
        if n > 1:
            self.lockstep(stage.loads, 2 * (n - 1) / n, after, then, stage.messages * stage.latency)

    def lockstep(
        self,
        loads: Mapping[Place, Load],
        weight: float,
        after: Sequence[int],
        then: Sequence[int],
        latency: float,
    ) -> None:
        """Hops that move each piece together; `weight`: bytes over a hop for each byte of a piece."""
        uses: dict[Way, float] = {}
        for place, (out, into) in loads.items():
            uses[place, True], uses[place, False] = out / weight, into / weight
        items = (
            Item(weight * size, start, end)
            for (size, _), start, end in zip(self.pieces, after, then, strict=True)
        )
        self.streams.append(Stream(uses, tuple(items), latency, lockstep=True))

    def flow(self, uses: Uses, items: Iterable[Item], latency: float) -> None:
        """Items that follow each other without waiting for what the last one's end brings."""
        self.streams.append(Stream(uses, tuple(items), latency))

    def play(self, link: Callable[[LinkClass], LinkEstimate | Unknown]) -> Course | Unknown:
        """What happens, or which link nothing is known of."""
        rates: dict[LinkClass, float] = {}
        for stream in self.streams:
            for (kind, _, _), _ in stream.uses:
                if kind not in rates:
                    known = link(kind)
                    if isinstance(known, Unknown):
                        return known
                    rates[kind] = known.bandwidth.mean
        return run(self.streams, self.gates, lambda place: rates[place[0]])
