"""A cycle is run at once for what could change a decision, and for nothing else."""

from math import inf

import pytest

from muster.daemon.loop.due import cycle_within
from muster.daemon.loop.loop import Pace
from muster.model.event import (
    Cancelled,
    Ended,
    Event,
    NodeReturned,
    Outcome,
    PreemptBegun,
    Preempted,
    StartBegun,
    Started,
    Submitted,
)
from muster.model.job import Job
from muster.model.task import Decided, StopAsked
from muster.model.view import JobState
from tests.builders import cluster, job, node_set, placement, running, view

PACE = Pace(gather=0.02, calm=0.25)
RIGID, ELASTIC, NEXT = job("rigid", 1), job("elastic", 1, most=4), job("next", 1)
ON, OFF = placement(("n0", 0b1)), placement(("n0", 0b10))
END = Ended(9, 1, Outcome.SUCCEEDED, 1.0)


def within(*facts: Event | StopAsked | Decided, jobs: tuple[Job | JobState, ...] = ()) -> float:
    there = view(cluster(1, node_set(devices=4)), jobs or [running(RIGID, ON)])
    return cycle_within(facts, there, PACE)


@pytest.mark.parametrize("fact", [Submitted(NEXT, 1.0), NodeReturned("n0", 1.0), Preempted(9, 1, 1.0)])
def test_what_asks_for_devices_or_frees_them_for_others_is_decided_at_once(fact: Event) -> None:
    assert within(fact, Started(1, 1, 1.0)) == PACE.gather


@pytest.mark.parametrize(
    "fact", [StartBegun(1, 1, ON, 1.0), Started(1, 1, 1.0), PreemptBegun(1, 1, 1.0)]
)
def test_what_was_decided_takes_its_course_without_another_cycle_at_once(fact: Event) -> None:
    assert within(fact) == PACE.calm


@pytest.mark.parametrize("fact", [END, Cancelled(9, 1.0)])
def test_an_end_is_decided_on_at_once_if_somebody_waits_or_could_grow(fact: Event) -> None:
    assert within(fact, jobs=(running(RIGID, ON), NEXT)) == PACE.gather
    assert within(fact, jobs=(running(RIGID, ON), running(ELASTIC, OFF))) == PACE.gather
    assert within(fact, jobs=(running(RIGID, ON),)) == PACE.calm


def test_facts_that_the_view_does_not_depend_on_call_for_no_cycle() -> None:
    assert within(StopAsked(1, 1.0)) == within() == inf
