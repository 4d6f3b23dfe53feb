"""Playing jobs on a cluster: it ends, and everything that can be is placed."""

from itertools import islice

from muster.core.cycle.cycle_state import Rules
from muster.model.decision import Kind
from muster.model.job import Locality
from muster.model.pool import Quota
from muster.model.reason import Code
from muster.model.topology import Level
from muster.model.view import View
from muster.policy.published.fifo import Fifo
from muster.sim.engine import Frame
from muster.sim.executor import VirtualClock
from muster.sim.play import play
from muster.sim.truth import Arrival
from tests.builders import cluster, job, view
from tests.numbers import name_of
from tests.world import flat

NODE = Locality(Level.NODE)
LONG = 2_000
"""Cycles that none of these plays needs."""


def played(seen: View, *arrivals: Arrival, rules: Rules | None = None) -> list[Frame]:
    frames = list(islice(play(seen.cluster, seen.pools, arrivals, Fifo(), rules), LONG))
    assert len(frames) < LONG
    return frames


def starts(frames: list[Frame]) -> list[tuple[float, str]]:
    return [
        (f.now, name_of(d.job)) for f in frames for d in f.decided.decisions if d.kind is Kind.START
    ]


def test_time_never_runs_backwards() -> None:
    clock = VirtualClock()
    clock.move_to(5.0)
    clock.move_to(3.0)
    assert clock.now() == 5.0


def test_nothing_to_play_is_no_cycle() -> None:
    assert played(view(cluster(1))) == []


def test_every_job_is_placed_and_ends() -> None:
    arrivals = [Arrival(10.0 * i, job(f"j{i}", 1 + i % 8, duration=100.0)) for i in range(20)]
    frames = played(view(cluster(1)), *arrivals)
    assert len(starts(frames)) == 20
    assert not frames[-1].after.jobs


def test_a_job_is_started_when_it_comes_and_the_next_when_there_is_room() -> None:
    frames = played(
        view(cluster(1)), Arrival(7.0, job("a", 8, duration=50.0)), Arrival(8.0, job("b", 8))
    )
    assert starts(frames) == [(7.0, "a"), (57.0, "b")]


def test_a_job_that_can_never_move_does_not_loop_for_ever() -> None:
    frames = played(
        view(cluster(1)), Arrival(0.0, job("never", 9)), Arrival(0.0, job("j", duration=5.0))
    )
    assert set(frames[-1].after.names) == {"nobody/never"}
    assert starts(frames) == [(0.0, "j")]


def test_a_job_that_ends_while_it_grows_is_over() -> None:
    """Growing takes 30 s, and the job ends 10 s after it began to."""
    frames = played(
        view(cluster(1)),
        Arrival(0.0, job("first", 6, duration=90.0)),
        Arrival(0.0, job("grows", 2, most=8, duration=100.0)),
    )
    assert any(d.reason.code is Code.GROWN for f in frames for d in f.decided.decisions)
    assert not frames[-1].after.jobs


def test_a_borrower_that_ends_while_it_is_being_stopped_is_over() -> None:
    owned = flat(owner=Quota(reservation=8), guest=Quota())
    frames = played(
        view(cluster(1), pools=owned),
        Arrival(0.0, job("guest", 8, pool="guest", duration=100.0)),
        Arrival(90.0, job("asks", 8, pool="owner", duration=10.0)),
    )
    assert starts(frames) == [(0.0, "guest"), (100.0, "asks")]
    assert not frames[-1].after.jobs


def test_a_stopped_borrower_goes_on_where_it_was_and_ends() -> None:
    owned = flat(owner=Quota(reservation=8), guest=Quota())
    frames = played(
        view(cluster(1), pools=owned),
        Arrival(0.0, job("guest", 8, pool="guest", duration=1000.0, pause=100.0)),
        Arrival(200.0, job("asks", 8, pool="owner", duration=10.0)),
    )
    assert starts(frames) == [(0.0, "guest"), (300.0, "asks"), (310.0, "guest")]
    assert frames[-1].now == 310.0 + 700.0
    assert not frames[-1].after.jobs


def test_a_migration_is_played_through() -> None:
    arrivals = [Arrival(0.0, job(f"s{i}", 1, duration=5000.0, pause=1.0)) for i in range(2)]
    arrivals.append(Arrival(10.0, job("large", 8, locality=NODE, duration=10.0)))
    frames = played(view(cluster(2)), *arrivals, rules=Rules(strategy="spread"))
    assert sum(len(f.decided.migrations) for f in frames) == 1
    assert "large" in {name for _, name in starts(frames)}


def test_equal_plays_are_equal() -> None:
    arrivals = [Arrival(3.0 * i, job(f"j{i}", 1 + i % 5, most=8, duration=60.0)) for i in range(12)]
    first, second = (
        [(f.now, f.decided) for f in played(view(cluster(2)), *arrivals)] for _ in range(2)
    )
    assert first == second
