"""The table of a job's life."""

from itertools import product
from typing import get_args

import pytest

from muster.core.state.lifecycle import BORN, NEXT, LifecycleError, advance
from muster.model.event import (
    Cancelled,
    Checkpointed,
    Ended,
    Event,
    MigrateBegun,
    Migrated,
    NodeAdded,
    NodeLost,
    PreemptBegun,
    Preempted,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
    Submitted,
)
from muster.model.view import Phase

HOLDING = set(Phase) - {Phase.WAITING, Phase.ENDED}
EVENTS: tuple[type[Event], ...] = get_args(Event)


def path(*events: type[Event]) -> Phase:
    phase = BORN
    for event in events:
        phase = advance(phase, event)
    return phase


def test_a_job_starts_and_runs() -> None:
    assert path(StartBegun) is Phase.STARTING
    assert path(StartBegun, Started) is Phase.RUNNING


def test_a_running_job_is_resized_and_moved() -> None:
    assert path(StartBegun, Started, ResizeBegun) is Phase.RESIZING
    assert path(StartBegun, Started, ResizeBegun, Resized) is Phase.RUNNING
    assert path(StartBegun, Started, MigrateBegun) is Phase.MIGRATING
    assert path(StartBegun, Started, MigrateBegun, Migrated) is Phase.RUNNING


def test_a_preempted_job_waits_again() -> None:
    assert path(StartBegun, Started, PreemptBegun, Preempted) is Phase.WAITING
    assert path(StartBegun, PreemptBegun, Preempted) is Phase.WAITING


def test_the_report_of_a_start_may_cross_the_order_to_stop() -> None:
    assert path(StartBegun, PreemptBegun, Started, Preempted) is Phase.WAITING


@pytest.mark.parametrize("phase", sorted(HOLDING))
def test_a_lost_node_sends_every_job_that_holds_something_back_to_wait(phase: Phase) -> None:
    assert advance(phase, NodeLost) is Phase.WAITING


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.ENDED}))
def test_a_job_can_be_cancelled_in_every_phase(phase: Phase) -> None:
    assert advance(phase, Cancelled) is Phase.ENDED


@pytest.mark.parametrize("phase", sorted(HOLDING))
def test_a_job_with_tasks_can_end(phase: Phase) -> None:
    assert advance(phase, Ended) is Phase.ENDED


@pytest.mark.parametrize("phase", sorted(HOLDING - {Phase.STARTING}))
def test_a_checkpoint_changes_no_phase(phase: Phase) -> None:
    assert advance(phase, Checkpointed) is phase


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_nothing_happens_after_the_end(event: type[Event]) -> None:
    with pytest.raises(LifecycleError):
        advance(Phase.ENDED, event)


def test_every_pair_outside_the_table_raises_and_names_both() -> None:
    for phase, event in product(Phase, EVENTS):
        if (phase, event) not in NEXT:
            with pytest.raises(LifecycleError, match=f"{event.__name__}.*{phase}") as caught:
                advance(phase, event)
            assert (caught.value.phase, caught.value.event) == (phase, event)


@pytest.mark.parametrize("event", [Submitted, NodeAdded])
def test_events_about_no_live_job_are_not_in_the_table(event: type[Event]) -> None:
    assert all(known is not event for _, known in NEXT)


def test_every_phase_can_be_reached_and_left_again() -> None:
    reached = {BORN}
    for _ in Phase:
        reached |= {after for (phase, _), after in NEXT.items() if phase in reached}
    assert reached == set(Phase)
    assert {phase for phase, _ in NEXT} == set(Phase) - {Phase.ENDED}
