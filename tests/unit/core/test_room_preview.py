"""Which moves would make room for which gang."""

from dataclasses import replace
from typing import Any

from muster.core.cycle.cycle import Memory
from muster.core.cycle.moves.room_preview import make_room_for, room_previews
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.model.decision import Kind
from muster.model.job import Job, Locality
from muster.model.topology import Level
from muster.model.view import Phase, View
from tests.builders import cluster, job, node_set, placement, running, view

NOW = 100.0


def _scattered(pause: float = 30.0, gang: int = 4, **fields: Any) -> View:
    """Two nodes of four: a job of two devices on each, and a gang that needs a whole node."""
    small = [
        running(job(name, 2, number=n, pause=pause, **fields), placement((f"n{n}", 1), (f"n{n}", 2)))
        for n, name in enumerate(("a", "b"))
    ]
    return view(cluster(2, node_set(devices=4)), [*small, _gang(gang)])


def _gang(devices: int) -> Job:
    return replace(job("gang", devices, number=9), locality=Locality(Level.NODE))


def test_a_move_that_makes_room_is_shown_with_its_cost() -> None:
    (found,) = room_previews(_scattered(), NOW, Memory())
    (move,) = found.migration.moves
    assert found.job == 9 and found.migration.placement.devices == 4
    assert found.migration.cost == 2 * 30.0
    assert move.placement.nodes().isdisjoint(found.migration.placement.nodes())
    assert (found.fragmentation_before, found.fragmentation_after) == (1.0, 0.0)


def test_a_move_is_shown_even_if_it_does_not_pay() -> None:
    (found,) = room_previews(_scattered(pause=1e6), NOW, Memory())
    assert found.migration.cost > found.gain


def test_what_starts_by_itself_or_cannot_be_helped_is_not_shown() -> None:
    assert room_previews(_scattered(gang=2), NOW, Memory()) == ()
    assert room_previews(_scattered(preemptible=False), NOW, Memory()) == ()
    seen = _scattered()
    held = replace(seen.jobs[9], held_by="ada")
    assert room_previews(replace(seen, jobs={**seen.jobs, 9: held}), NOW, Memory()) == ()


def test_the_moves_are_valid_decisions_and_the_room_is_kept_for_the_gang() -> None:
    seen = _scattered(pause=1e6)
    decided = make_room_for(seen, NOW, Memory(), 9)
    assert decided is not None
    check(seen, decided)
    (decision,) = (each for each in decided.decisions if each.kind is Kind.MIGRATE)
    (promise,) = decided.memory.promises
    assert promise.job == 9 and promise.placement.devices == 4
    after = evolve(seen, begun(decided, NOW))
    assert after.jobs[decision.job].phase is Phase.MIGRATING
