"""A standing follows a view by difference; `tests/prop/test_standing.py` does so through histories."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from muster.core.cycle.cycle import Cycle, Memory
from muster.core.cycle.standing import Standing
from muster.core.state.evolve import evolve
from muster.model.cluster import Node
from muster.model.event import (
    Cancelled,
    Event,
    NodeAdded,
    NodeDraining,
    NodeLost,
    NodeReturned,
    PreemptBegun,
    Preempted,
    ResizeBegun,
    StartBegun,
    Started,
    Submitted,
)
from muster.model.pool import Entitlements, single_pool
from muster.model.view import View
from muster.policy.base import Shares
from muster.policy.published.fifo import Fifo
from tests.builders import cluster, job, mixed, node_set, placement, running, view
from tests.numbers import number
from tests.unit.place.naive import state_of

ONE, TWO = placement(("n0", 1)), placement(("n0", 1), ("n1", 2))


def start() -> View:
    on = mixed((2, node_set("a", devices=4)), (1, node_set("b", device_type="V100", devices=4)))
    choosy = job("c", device_types=("A100", "V100"))
    return view(on, [running(job("r", 1, most=4), ONE), job("w", 3), choosy])


STEPS: list[Sequence[Event]] = [
    [],
    [Submitted(job("x"), 5.0)],
    [
        StartBegun(number("w"), 1, placement(("n1", 1), ("n1", 2), ("n1", 4)), 5.0),
        Started(number("w"), 1, 5.0),
    ],
    [ResizeBegun(number("r"), 2, TWO, 5.0)],
    [PreemptBegun(number("r"), 1, 5.0)],
    [PreemptBegun(number("r"), 1, 5.0), Preempted(number("r"), 1, 6.0)],
    [Cancelled(number("w"), 5.0), Cancelled(number("c"), 5.0)],
    [Cancelled(number("w"), 5.0), Submitted(job("w", 2, preemptible=False, number=9), 6.0)],
    [NodeLost("n0", 5.0)],
    [NodeDraining("n0", 5.0)],
    [NodeDraining("n0", 5.0), NodeReturned("n0", 6.0)],
    [NodeLost("n1", 5.0), NodeReturned("n1", 6.0)],
    [NodeAdded(Node("n9", "a", "r0", "d0", 0, 0, 0), 5.0), Submitted(job("x"), 5.0)],
]


def same(one: Standing, other: Standing) -> None:
    """Everything a cycle reads of them is equal."""
    assert state_of(one.board) == state_of(other.board)
    mine, theirs = one.ledger.snapshot(), other.ledger.snapshot()
    assert (mine.free, mine.millicores, mine.memory) == (theirs.free, theirs.millicores, theirs.memory)
    assert one.available == other.available
    assert {k: n for k, n in one.demands().items() if n} == {
        k: n for k, n in other.demands().items() if n
    }
    assert (one.waiting, set(one.changing)) == (other.waiting, set(other.changing))
    for each in one.view.jobs:
        assert one.ledger.held(each) == other.ledger.held(each)
    for tally in ("used", "held", "fixed", "fixed_held"):
        assert +getattr(one.tallies, tally) == +getattr(other.tallies, tally)


@pytest.mark.parametrize("events", STEPS, ids=range(len(STEPS)))
def test_it_is_what_one_made_afresh_would_be(events: Sequence[Event]) -> None:
    before = start()
    standing = Standing(before)
    after = evolve(before, events)
    standing.follow(after)
    same(standing, Standing(after))
    last = evolve(after, [Submitted(job("last"), 7.0)])
    standing.follow(last)
    same(standing, Standing(last))


def test_other_pools_or_another_cluster_begin_anew() -> None:
    before = start()
    standing = Standing(before)
    other = replace(before, pools=single_pool({"A100": 1}))
    standing.follow(other)
    same(standing, Standing(other))
    elsewhere = view(cluster(1, node_set(devices=2)), [job("z")])
    standing.follow(elsewhere)
    same(standing, Standing(elsewhere))


class Fails(Fifo):
    """Raises when told to."""

    wrong = False

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        if Fails.wrong:
            raise RuntimeError("no idea")
        return super().allocate(view, entitlements, now, memory)


def test_after_an_error_a_cycle_decides_as_if_nothing_had_been() -> None:
    before = start()
    cycle = Cycle(Fails())
    first = cycle.decide(before, 10.0, Memory())
    Fails.wrong = True
    with pytest.raises(RuntimeError):
        cycle.decide(evolve(before, STEPS[2]), 20.0, Memory())
    Fails.wrong = False
    after = evolve(before, STEPS[3])
    assert cycle.decide(after, 30.0, Memory()) == Cycle(Fails()).decide(after, 30.0, Memory())
    assert cycle.decide(before, 10.0, Memory()) == first
