"""Transfers that share links fairly, from event to event: what `replay` is made of.

At any moment the rates of the transfers under way are max-min fair: all grow alike until an edge is
full, those that cross it stay as they are, the others go on growing (progressive filling, Bertsekas
and Gallager, Data Networks, section 6.5.2). Rates change only when a transfer starts or ends.

Alike transfers, which start and end together, are one stream: its rate is that of each of them, and its
use of an edge is how many of them cross it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from muster.perf.traffic import Place

Way = tuple[Place, bool]
"""One way of an edge; True leads out of the subtree below it."""
Uses = Mapping[Way, float]
"""How many transfers of a stream cross each way of an edge."""

FREE = 1e18
"""Bytes/s of a transfer that crosses no link at all: as good as at once."""
_SLACK = 1e-9
"""Part of an item that may be left when it counts as done: rounding, and alike ones end together."""


@dataclass(frozen=True, slots=True)
class Item:
    """One transfer of a stream: bytes of each of the alike ones, the gate it waits for, the gate it
    reports to."""

    size: float
    after: int
    then: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Items that follow each other over the same links. A report arrives a latency (s) after the last
    byte; in lock-step the next item waits for that too."""

    uses: Uses
    items: tuple[Item, ...]
    latency: float = 0.0
    lockstep: bool = False


@dataclass(slots=True)
class Gates:
    """What items wait for: a gate opens when all reports it needs have come."""

    needs: list[int]
    timers: list[tuple[float, int]]
    """(s, gate): reports that come by themselves, such as a gradient's being ready."""

    def new(self, needs: int) -> int:
        """Add a gate that needs this many reports."""
        self.needs.append(needs)
        return len(self.needs) - 1

    def at(self, time: float, needs: int = 1) -> int:
        """Add a gate with one report at a time; it opens then if it needs no other."""
        gate = self.new(needs)
        self.timers.append((time, gate))
        return gate


def max_min(
    counts: NDArray[np.float64], capacity: NDArray[np.float64], active: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Max-min fair rates; counts: [edge, stream] transfers that cross, capacity: [edge] bytes/s."""
    rates = np.zeros(len(active))
    growing, room = active.copy(), capacity.copy()
    while growing.any():
        crossing = counts @ growing
        levels = np.divide(room, crossing, out=np.full_like(room, np.inf), where=crossing > 0)
        level = levels.min(initial=np.inf)
        if level == np.inf:
            rates[growing] = FREE
            break
        full = levels <= level * (1 + 1e-12)
        stay = growing & (counts[full] > 0).any(axis=0)
        rates[stay] = level
        room = np.maximum(room - counts @ (stay * level), 0.0)
        growing &= ~stay
    return rates


class Links:
    """The edges that streams share; rates for each set of streams are worked out once."""

    def __init__(self, streams: Sequence[Stream], bandwidth: Callable[[Place], float]) -> None:
        crossed: defaultdict[Way, list[tuple[int, float]]] = defaultdict(list)
        for i, stream in enumerate(streams):
            for way, count in stream.uses.items():
                if count > 0:
                    crossed[way].append((i, count))
        # Alike edges, crossed by as many of each stream, are full at once: one stands for all.
        rows = dict.fromkeys((bandwidth(way[0]), tuple(uses)) for way, uses in crossed.items())
        self._capacity = np.array([rate for rate, _ in rows])
        self._counts = np.zeros((len(rows), len(streams)))
        for row, (_, uses) in enumerate(rows):
            for column, count in uses:
                self._counts[row, column] = count
        self._kept: dict[bytes, NDArray[np.float64]] = {}

    def rates(self, active: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Bytes/s of each stream while these are under way."""
        key = active.tobytes()
        if key not in self._kept:
            self._kept[key] = max_min(self._counts, self._capacity, active)
        return self._kept[key]


@dataclass(frozen=True, slots=True)
class Course:
    """What happened: when each gate opened (s; never: inf), and when the last report arrived."""

    opened: tuple[float, ...]
    end: float


def run(streams: Sequence[Stream], gates: Gates, bandwidth: Callable[[Place], float]) -> Course:
    """Play all streams from the first timer to the last report."""
    return _Run(streams, gates, Links(streams, bandwidth)).course()


class _Run:
    """One play: the clock, what is under way, and what waits for which gate."""

    def __init__(self, streams: Sequence[Stream], gates: Gates, links: Links) -> None:
        self._streams = streams
        self._links = links
        self._now = self._end = 0.0
        self._missing = list(gates.needs)
        self._opened = [float("inf")] * len(gates.needs)
        self._waiting: defaultdict[int, list[int]] = defaultdict(list)
        self._next = [0] * len(streams)
        self._active = np.zeros(len(streams), dtype=np.bool_)
        self._left = np.zeros(len(streams))
        self._slack = np.zeros(len(streams))
        self._reports: list[tuple[float, int, int]] = []
        for time, gate in gates.timers:
            heappush(self._reports, (time, gate, -1))

    def course(self) -> Course:
        """Play to the end."""
        for stream in range(len(self._streams)):
            self._start(stream)
        while True:
            while self._reports and self._reports[0][0] <= self._now:
                self._hear(*heappop(self._reports))
            if not self._advance():
                return Course(tuple(self._opened), self._end)

    def _advance(self) -> bool:
        """To the next report, or to the next end of a transfer if that is sooner."""
        report = self._reports[0][0] if self._reports else float("inf")
        if not self._active.any():
            self._now = max(self._now, report)
            return bool(self._reports)
        rates = self._links.rates(self._active)
        left = np.where(self._active, self._left / np.maximum(rates, 1e-300), np.inf)
        passed = float(left.min())
        ends = self._now + passed <= report
        if not ends:
            passed = report - self._now
        self._left -= rates * passed
        self._now = self._now + passed if ends else report
        for stream in np.flatnonzero(self._active & (self._left <= self._slack)):
            self._finish(int(stream))
        return True

    def _hear(self, time: float, gate: int, stream: int) -> None:
        """A report arrives: its gate may open, its stream may go on."""
        self._end = max(self._end, time)
        if gate >= 0:
            self._missing[gate] -= 1
            if self._missing[gate] == 0:
                self._opened[gate] = time
                for waiting in self._waiting.pop(gate, ()):
                    self._start(waiting)
        if stream >= 0:
            self._start(stream)

    def _start(self, stream: int) -> None:
        """The next item, if there is one and its gate is open."""
        items = self._streams[stream].items
        if self._next[stream] == len(items):
            return
        item = items[self._next[stream]]
        if item.after >= 0 and self._missing[item.after] > 0:
            self._waiting[item.after].append(stream)
            return
        self._active[stream] = True
        self._left[stream] = item.size
        self._slack[stream] = _SLACK * item.size

    def _finish(self, number: int) -> None:
        stream = self._streams[number]
        item = stream.items[self._next[number]]
        self._active[number] = False
        self._next[number] += 1
        heard = number if stream.lockstep else -1
        heappush(self._reports, (self._now + stream.latency, item.then, heard))
        if not stream.lockstep:
            self._start(number)
