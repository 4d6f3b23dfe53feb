"""How policies ranked their jobs, to be told: each is worked out only where reasons are given."""

from collections.abc import Iterable

from muster.model.reason import Measure
from muster.model.view import JobState, View
from muster.policy.base import Merits
from muster.policy.market.bids import Bid
from muster.policy.room import Room
from muster.policy.unknown import remaining


def by_worth(deals: Iterable[tuple[Iterable[Bid], Iterable[int]]]) -> Merits:
    """Rank jobs by what a device saves with them; each deal has its bids, and who is overdue."""
    bids, late = list[Bid](), set[int]()
    for each, overdue in deals:
        bids += each
        late.update(overdue)
    ranked = sorted((bid.number not in late, -_worth(bid), bid.number) for bid in bids)
    values = tuple((number, -less) for _, less, number in ranked)
    return Merits(Measure.WORTH, values, frozenset(late))


def _worth(bid: Bid) -> float:
    """Return what a device of its share saves, of its gang if it has none: price x speed / devices."""
    curve = bid.curves.get(bid.type or bid.type_held or "")
    if curve is None:
        return 0.0
    workers = bid.workers or bid.held
    at = curve.workers.index(workers) if workers in curve.workers else 0
    return bid.price * curve.speeds[at] / curve.devices[at]


def by_time_left(view: View, room: Room, states: Iterable[JobState], now: float) -> Merits:
    """Rank jobs by priority, then by the time they have left with their gang."""
    times = [(s, remaining(view, s, room.types(s.job), now)) for s in states]
    order = sorted((-s.job.priority, left, s.submitted, s.number) for s, left in times)
    return Merits(Measure.LEFT, tuple((number, left) for _, left, _, number in order))


def by_service(states: Iterable[JobState], now: float) -> Merits:
    """Rank jobs by the service that they have had."""
    return ranked(Measure.SERVICE, [(s.number, s.attained(now)) for s in states], least=True)


def by_age(states: Iterable[JobState], now: float) -> Merits:
    """Rank jobs by priority, then by the time since their submission."""
    order = sorted((-s.job.priority, s.submitted, s.number) for s in states)
    return Merits(Measure.AGE, tuple((n, max(0.0, now - since)) for _, since, n in order))


def ranked(measure: Measure, values: Iterable[tuple[int, float]], *, least: bool = False) -> Merits:
    """Rank jobs by a value, the largest first, or the least."""
    sign = 1.0 if least else -1.0
    order = sorted(values, key=lambda each: (sign * each[1], each[0]))
    return Merits(measure, tuple(order))
