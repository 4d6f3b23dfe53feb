"""Who owns which part of the parameters: water-filling over ports, cards and racks.

An edge above owners with the total share O is done after base + slope O seconds per byte of gradients.
The maximum is least when all owners are done together: raise the level until what owners and racks can
take by then adds up to 1. For cards alone this is the notes' rule T_j = (S + (n-2) O_j)/bw_j; with
servers on CPUs it is BytePS' theorem 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

Edge = tuple[float, float]
"""(base, slope): s/byte without a share of the parameters behind it, and the addition with all."""
Edges = Sequence[Edge]
"""Edges that limit the same share."""

UNEVEN = 1.15
"""Unequal shares are used if equal ones would end later than this many times the level: links are
shared fairly by connection, so a large share is late on its own links while small ones are still on
theirs, which costs unequal shares about as much (measured in namespaces, and replayed)."""

_ROUNDS = 60
"""More than the kinks between the first level and the last; each round passes one."""


@dataclass(frozen=True, slots=True)
class Owners:
    """Owners behind one uplink: its edges, and those of each owner with the number of its kind."""

    edges: Edges
    owners: Sequence[tuple[Edges, int]]


def edge(k: int, n: int, bandwidth: float) -> Edge:
    """Return the edge with k of n workers behind it."""
    return k / bandwidth, (n - 2 * k) / bandwidth


def level(racks: Sequence[Owners]) -> float:
    """Return the least time at which all owners are done, s/byte."""
    done = 0.0
    for _ in range(_ROUNDS):
        # What can be taken by a time is concave in it, so Newton's steps from below never pass 1.
        rooms = [_rack_room(rack, done) for rack in racks]
        missing = 1 - sum(room for room, _, _ in rooms)
        if missing <= 1e-12:
            break
        gain = sum(rate for _, rate, _ in rooms)
        starts = min((start for _, _, start in rooms if start > done), default=inf)
        then = done + missing / gain if gain > 0 else inf
        done = min(then, starts) if min(then, starts) < inf else done
        if then == starts == inf:
            break
    return done


def water_filled(racks: Sequence[Owners], floor: float = 0.0) -> list[list[float]]:
    """Return the shares of each rack's owners (identical ones together; sum 1) that finish earliest.

    `floor`: a time before which the step cannot end anyway. Equal shares if they do about as well.
    """
    done = max(level(racks), floor) * (1 + 1e-9)
    count = sum(n for rack in racks for _, n in rack.owners)
    if _evenly(racks, count) <= UNEVEN * done:
        return [[n / count for _, n in rack.owners] for rack in racks]
    found = []
    for rack in racks:
        own = [n * _room(edges, done)[0] for edges, n in rack.owners]
        found.append(_within(_rack_room(rack, done)[0], own))
    total = sum(map(sum, found))
    return [[part / total for part in parts] for parts in found]


def _evenly(racks: Sequence[Owners], count: int) -> float:
    """Return when the last owner is done with equal shares."""
    ends = [0.0]
    for rack in racks:
        behind = sum(n for _, n in rack.owners) / count
        ends += [base + slope * behind for base, slope in rack.edges]
        ends += [base + slope / count for edges, _ in rack.owners for base, slope in edges]
    return max(ends)


def _within(room: float, parts: list[float]) -> list[float]:
    """Scale parts down to what their rack can take."""
    total = sum(parts)
    return [part * room / total for part in parts] if total > room else parts


def _rack_room(rack: Owners, done: float) -> tuple[float, float, float]:
    """Return what a rack's owners can hold by a time, its growth rate, and when it next starts."""
    together = _room(rack.edges, done)
    if not rack.owners:
        return together
    own, rate, starts = 0.0, 0.0, inf
    for edges, count in rack.owners:
        room, gain, start = _room(edges, done)
        own += count * room
        rate += count * gain
        if done < start < starts:
            starts = start
    return together if together[0] <= own else (own, rate, starts)


def _room(edges: Edges, done: float) -> tuple[float, float, float]:
    """Return the share that edges carry by a time, its growth rate, and when it starts."""
    room, rate, start = 1.0, 0.0, 0.0
    for base, slope in edges:
        start = max(start, base + min(slope, 0.0))  # more than half behind it: a share makes it faster
        if slope > 0 and (done - base) / slope < room:
            room, rate = (done - base) / slope, 1 / slope
        elif slope <= 0 and done < base + slope:
            room, rate = 0.0, 0.0
    if room <= 0:
        return 0.0, (rate if done >= start else 0.0), start
    return room, rate, start
