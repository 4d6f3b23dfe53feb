"""A cycle in which nothing has happened repeats the last one; whatever happens ends that."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.cycle.rest import RESTS
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.model.event import NodeDraining, ResizeBegun, Submitted
from muster.model.outlook import Outlook, Table
from muster.model.pool import Entitlements
from muster.model.view import View
from muster.policy.base import Shares
from muster.policy.muster import Muster
from tests.builders import cluster, job, node_set, placement, running, view
from tests.numbers import by_number, number

SPEED = Table((1.0, 2.0))
NOW = 1000.0


@dataclass(frozen=True)
class Counted(Muster):
    """Counts how often it is asked."""

    asked: list[float] = field(default_factory=list)

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        self.asked.append(now)
        return super().allocate(view, entitlements, now, memory)


def told(seen: View, left: float, here: float = 2.0, speed: Table = SPEED) -> View:
    known = {"r": Outlook(left, speed, here=here), "w": Outlook(50_000.0, SPEED)}
    return replace(seen, outlooks=by_number(known))


def scene() -> View:
    """One job runs on both devices, another waits for them."""
    full = cluster(1, node_set(devices=2, sockets=1, switches=1))
    two = placement(("n0", 1), ("n0", 2))
    return told(view(full, [running(job("r", 2), two, since=0.0), job("w", 2)]), 5000.0)


@dataclass
class Settled:
    """A cycle that had nothing to do."""

    policy: Counted = field(default_factory=Counted)
    view: View = field(default_factory=scene)

    def __post_init__(self) -> None:
        self.cycle = Cycle(self.policy)
        self.first = self.cycle.decide(self.view, NOW, Memory())

    def decide(self, seen: View, now: float, memory: Memory | None = None) -> Decisions:
        decided = self.cycle.decide(seen, now, memory or self.first.memory)
        check(seen, decided)
        return decided


def test_while_jobs_just_run_the_policy_is_not_asked() -> None:
    settled = Settled()
    later = told(replace(settled.view, version=settled.view.version + 3), 5000.0 - 2 * 10)
    decided = settled.decide(later, NOW + 10)
    assert settled.policy.asked == [NOW]
    assert decided == replace(settled.first, version=later.version)


News = Callable[[View], View]
NEWS: dict[str, News] = {
    "a job comes": lambda seen: evolve(seen, [Submitted(job("x"), NOW)]),
    "a job changes": lambda seen: evolve(
        seen, [ResizeBegun(number("r"), 2, placement(("n0", 1), ("n0", 2)), NOW)]
    ),
    "a node drains": lambda seen: evolve(seen, [NodeDraining("n0", NOW)]),
    "it is longer than believed": lambda seen: told(seen, 6000.0),
    "it is almost done": lambda seen: told(seen, 100.0),
    "it is slower": lambda seen: told(seen, 5000.0, here=1.5),
    "it would be faster elsewhere": lambda seen: told(seen, 5000.0, speed=Table((1.5, 2.0))),
    "nothing is believed any more": lambda seen: replace(seen, outlooks={}),
    "a link is slow": lambda seen: replace(seen, uplinks={"n0": 1e9}),
}


@pytest.mark.parametrize("news", NEWS.values(), ids=NEWS)
def test_whatever_happens_is_decided_on(news: News) -> None:
    settled = Settled()
    settled.decide(news(settled.view), NOW + 10)
    assert settled.policy.asked == [NOW, NOW + 10]


def test_after_a_while_it_is_asked_again_anyway() -> None:
    settled = Settled()
    settled.decide(settled.view, NOW + RESTS)
    assert settled.policy.asked == [NOW, NOW + RESTS]


def test_another_memory_is_another_history() -> None:
    settled = Settled()
    settled.decide(settled.view, NOW + 10, Memory())
    assert settled.policy.asked == [NOW, NOW + 10]


def test_a_change_that_settles_is_seen_within_half_a_minute() -> None:
    two = placement(("n0", 1), ("n0", 2))
    full = cluster(1, node_set(devices=2, sockets=1, switches=1))
    fresh = told(view(full, [running(job("r", 2), two, since=NOW - 1), job("w", 2)]), 5000.0)
    settled = Settled(view=fresh)
    settled.decide(fresh, NOW + 10)
    assert settled.policy.asked == [NOW]
    settled.decide(fresh, NOW + RESTS)
    assert settled.policy.asked == [NOW, NOW + RESTS]


def test_what_is_decided_must_come_true_first() -> None:
    idle = view(cluster(1, node_set(devices=2, sockets=1, switches=1)), [job("w", 2)])
    settled = Settled(view=idle)
    settled.decide(idle, NOW + 10)
    assert settled.policy.asked == [NOW, NOW + 10]
