"""A running job leaves a node whose link was learnt to be slow, where that pays."""

from dataclasses import replace

import pytest

from muster.core.cycle.cycle_state import Rules
from muster.model.decision import Kind
from muster.model.job import Job
from muster.model.reason import Code
from muster.model.view import JobState
from tests.builders import cluster, job, node_set, placement, running, view
from tests.world import Frame, World

HOUR = 3600.0
TENTH = {"n1": 1e8}
"""Bytes/s."""


def on_two(wide: Job, *nodes: str) -> JobState:
    """Two workers on each of two nodes, for an hour."""
    slots = placement(*((node, bit) for node in nodes or ("n0", "n1") for bit in (1, 2)))
    return running(wide, slots, since=0.0, started=0.0)


def decided(
    state: JobState, *more: Job, uplinks: dict[str, float], rules: Rules | None = None
) -> Frame:
    seen = view(cluster(4, node_set(devices=2)), [state, *more])
    return World(replace(seen, uplinks=uplinks), HOUR, rules=rules or Rules()).cycle()


def test_a_job_is_moved_off_the_slow_link() -> None:
    frame = decided(on_two(job("a", 4, pause=30.0)), uplinks=TENTH)
    (moved,) = frame.of(Kind.MIGRATE)
    assert moved.placement is not None and "n1" not in moved.placement.nodes()
    assert moved.reason.code is Code.MIGRATED_LINKS
    assert moved.reason.gain is not None and moved.reason.cost == 4 * 30.0 < moved.reason.gain


def test_one_that_is_resized_live_keeps_the_tasks_that_are_well_placed() -> None:
    wide = job("a", 4, gang=1, most=4, pause=30.0)
    frame = decided(on_two(wide), uplinks=TENTH)
    (resized,) = frame.of(Kind.RESIZE)
    assert resized.placement is not None and "n1" not in resized.placement.nodes()
    assert resized.reason.code is Code.RESIZED_LINKS


@pytest.mark.parametrize(
    "uplinks, rules, pause",
    [
        ({}, Rules(), 30.0),
        (TENTH, Rules(migrate=False), 30.0),
        (TENTH, Rules(), HOUR),  # does not pay
        (dict.fromkeys(("n1", "n2", "n3"), 1e8), Rules(), 30.0),  # nothing better is free
    ],
)
def test_otherwise_it_stays(uplinks: dict[str, float], rules: Rules, pause: float) -> None:
    frame = decided(on_two(job("a", 4, pause=pause)), uplinks=uplinks, rules=rules)
    assert not frame.of(Kind.MIGRATE)


def test_it_stays_while_another_waits_for_room() -> None:
    assert not decided(on_two(job("a", 4)), job("large", 8), uplinks=TENTH).of(Kind.MIGRATE)
