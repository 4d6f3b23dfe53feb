"""The fold of events: what each does, and what is refused."""

from dataclasses import replace

import pytest

from muster.core.state.event_errors import (
    EventError,
    NameTakenError,
    OverbookedError,
    StaleEventError,
    UnknownNameError,
)
from muster.core.state.evolve import evolve
from muster.core.state.lifecycle import LifecycleError
from muster.model.cluster import NodeState
from muster.model.event import (
    Cancelled,
    Checkpointed,
    Ended,
    Event,
    MigrateBegun,
    Migrated,
    NodeAdded,
    NodeDraining,
    NodeLost,
    NodeReturned,
    Outcome,
    PreemptBegun,
    Preempted,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
    Submitted,
)
from muster.model.job import Need, Role
from muster.model.placement import Placement
from muster.model.view import Phase, View
from tests.builders import GB, cluster, job, node_set, placement, running, slot, view
from tests.numbers import number

TWO = placement(("n0", 0b01), ("n0", 0b10))


def free(state: View, node: str) -> int:
    return state.cluster.node(node).free


def started(placed: Placement = TWO, **fields: int) -> View:
    """Two nodes of 8 devices, and job j on this placement since 1.0."""
    workers = placed.count(Role.WORKER)
    asked = job("j", workers, gang=fields.get("gang", workers), servers=fields.get("servers", 0))
    return evolve(
        view(cluster(2)),
        [Submitted(asked, 0.0), StartBegun(number("j"), 1, placed, 1.0), Started(number("j"), 1, 2.0)],
    )


def test_a_submitted_job_waits_since_then() -> None:
    after = evolve(view(cluster(2), version=5), [Submitted(job("j"), 3.0)])
    assert after.version == 6
    assert after.jobs[number("j")].phase is Phase.WAITING
    assert after.jobs[number("j")].submitted == 3.0


def test_a_begun_start_takes_devices_cores_and_memory() -> None:
    after = evolve(view(cluster(2), [job("j", 2)]), [StartBegun(number("j"), 1, TWO, 7.0)])
    state, node = after.jobs[number("j")], after.cluster.node("n0")
    assert (state.phase, state.generation, state.started) == (Phase.STARTING, 1, 7.0)
    assert state.placement == TWO
    assert (node.free, node.millicores, node.memory) == (0b11111100, 30_000, 254 * GB)


def test_started_means_running() -> None:
    assert started().jobs[number("j")].phase is Phase.RUNNING


def test_a_resize_holds_old_and_new_until_it_is_done() -> None:
    smaller_elsewhere = placement(("n0", 0b01), ("n1", 0b1))
    begun = evolve(started(), [ResizeBegun(number("j"), 2, smaller_elsewhere, 3.0)])
    assert (free(begun, "n0"), free(begun, "n1")) == (0b11111100, 0b11111110)
    assert begun.jobs[number("j")].placement == TWO
    assert begun.jobs[number("j")].target == smaller_elsewhere
    done = evolve(begun, [Resized(number("j"), 2, 4.0)])
    assert (free(done, "n0"), free(done, "n1")) == (0b11111110, 0b11111110)
    assert done.jobs[number("j")].phase is Phase.RUNNING
    assert (done.jobs[number("j")].placement, done.jobs[number("j")].target) == (
        smaller_elsewhere,
        None,
    )


def test_a_migration_frees_the_old_devices_at_its_end_and_the_run_goes_on() -> None:
    there = placement(("n1", 0b01), ("n1", 0b10))
    begun = evolve(started(), [MigrateBegun(number("j"), 2, there, 3.0)])
    assert begun.jobs[number("j")].phase is Phase.MIGRATING
    assert (free(begun, "n0"), free(begun, "n1")) == (0b11111100, 0b11111100)
    done = evolve(begun, [Migrated(number("j"), 2, 4.0)])
    assert (free(done, "n0"), free(done, "n1")) == (0b11111111, 0b11111100)
    assert done.jobs[number("j")].started == 1.0


def test_a_preempted_job_holds_its_devices_until_it_has_stopped() -> None:
    begun = evolve(started(), [Checkpointed(number("j"), 1, 2.5), PreemptBegun(number("j"), 1, 3.0)])
    assert begun.jobs[number("j")].phase is Phase.PREEMPTING
    assert free(begun, "n0") == 0b11111100
    done = evolve(begun, [Preempted(number("j"), 1, 4.0)])
    state = done.jobs[number("j")]
    assert free(done, "n0") == 0b11111111
    assert (state.phase, state.placement, state.submitted) == (Phase.WAITING, None, 0.0)
    assert (state.started, state.checkpointed) == (None, None)


def test_a_preempted_job_starts_again_with_the_next_generation() -> None:
    waiting = evolve(started(), [PreemptBegun(number("j"), 1, 3.0), Preempted(number("j"), 1, 4.0)])
    again = evolve(waiting, [StartBegun(number("j"), 2, TWO, 5.0)])
    assert (again.jobs[number("j")].generation, again.jobs[number("j")].started) == (2, 5.0)


def test_a_checkpoint_is_remembered() -> None:
    assert evolve(started(), [Checkpointed(number("j"), 1, 9.0)]).jobs[number("j")].checkpointed == 9.0


@pytest.mark.parametrize("outcome", Outcome)
def test_an_ended_job_leaves_the_view_and_frees_all(outcome: Outcome) -> None:
    changing = evolve(started(), [ResizeBegun(number("j"), 2, placement(("n1", 1)), 3.0)])
    after = evolve(changing, [Ended(number("j"), 1, outcome, 4.0)])
    assert after.jobs == {}
    assert after.cluster == cluster(2)


def test_the_end_of_a_run_that_was_stopped_does_not_end_the_job() -> None:
    again: list[Event] = [
        PreemptBegun(number("j"), 1, 3.0),
        Preempted(number("j"), 1, 4.0),
        Ended(number("j"), 1, Outcome.FAILED, 4.5),
        StartBegun(number("j"), 2, TWO, 5.0),
        Checkpointed(number("j"), 1, 5.5),
        Ended(number("j"), 1, Outcome.FAILED, 6.0),
    ]
    state = evolve(started(), again).jobs[number("j")]
    assert (state.phase, state.generation, state.checkpointed) == (Phase.STARTING, 2, None)


def test_a_cancelled_job_leaves_whatever_it_is_doing() -> None:
    after = evolve(started(), [PreemptBegun(number("j"), 1, 3.0), Cancelled(number("j"), 4.0)])
    assert after.jobs == {}
    assert after.cluster == cluster(2)


def test_a_name_can_be_used_again_after_the_end() -> None:
    after = evolve(started(), [Ended(number("j"), 1, Outcome.FAILED, 3.0), Submitted(job("j"), 4.0)])
    assert after.jobs[number("j")].generation == 0


# Fencing


@pytest.mark.parametrize("generation", [0, 1, 3])
@pytest.mark.parametrize("begin", [ResizeBegun, MigrateBegun])
def test_a_change_must_name_the_next_generation(
    begin: type[ResizeBegun] | type[MigrateBegun], generation: int
) -> None:
    with pytest.raises(StaleEventError) as caught:
        evolve(started(), [begin(number("j"), generation, placement(("n1", 1)), 3.0)])
    assert (caught.value.named, caught.value.expected) == (generation, 2)


@pytest.mark.parametrize("generation", [0, 2])
def test_a_start_must_name_the_next_generation(generation: int) -> None:
    with pytest.raises(StaleEventError):
        evolve(view(cluster(1), [job("j", 2)]), [StartBegun(number("j"), generation, TWO, 0.0)])


@pytest.mark.parametrize("generation", [0, 2])
def test_a_preemption_must_name_the_present_generation(generation: int) -> None:
    with pytest.raises(StaleEventError):
        evolve(started(), [PreemptBegun(number("j"), generation, 3.0)])


@pytest.mark.parametrize("completion", [Started, Resized, Migrated, Preempted])
def test_a_late_completion_is_ignored_but_counted(
    completion: type[Started] | type[Resized] | type[Migrated] | type[Preempted],
) -> None:
    before = started()
    after = evolve(before, [completion(number("j"), 0, 9.0)])
    assert after == replace(before, version=before.version + 1)


@pytest.mark.parametrize("completion", [Started, Resized, Migrated, Preempted])
def test_a_completion_from_the_future_is_refused(
    completion: type[Started] | type[Resized] | type[Migrated] | type[Preempted],
) -> None:
    with pytest.raises(StaleEventError):
        evolve(started(), [completion(number("j"), 2, 9.0)])


def test_a_completion_in_the_wrong_phase_is_refused() -> None:
    with pytest.raises(LifecycleError):
        evolve(started(), [Resized(number("j"), 1, 9.0)])


# Refusals


def test_a_job_cannot_be_submitted_twice() -> None:
    with pytest.raises(NameTakenError, match=f"job {number('j')} is already live"):
        evolve(started(), [Submitted(job("other", number=number("j")), 3.0)])


def test_two_jobs_without_a_number_are_refused() -> None:
    with pytest.raises(NameTakenError, match="job 0 is already live"):
        evolve(started(), [Submitted(job(name, number=0), 3.0) for name in ("a", "b")])


def test_a_name_is_free_again_once_its_job_is_over() -> None:
    another = Submitted(job("j", number=9), 3.0)
    with pytest.raises(NameTakenError, match="'nobody/j'"):
        evolve(started(), [another])
    seen = evolve(started(), [Cancelled(number("j"), 3.0), another])
    assert (seen.names, list(seen.jobs)) == ({"nobody/j": 9}, [9])
    with pytest.raises(NameTakenError, match="'nobody/j'"):
        evolve(seen, [Submitted(job("j", number=10), 4.0)])


def test_users_may_have_jobs_of_one_name() -> None:
    seen = evolve(started(), [Submitted(job("j", number=9, user="bob"), 3.0)])
    assert seen.names == {"nobody/j": number("j"), "bob/j": 9}
    over = evolve(seen, [Cancelled(number("j"), 4.0)])
    assert over.names == {"bob/j": 9}


def test_a_late_end_leaves_the_name_in_use() -> None:
    stopped = evolve(started(), [PreemptBegun(number("j"), 1, 3.0), Preempted(number("j"), 1, 4.0)])
    seen = evolve(stopped, [Ended(number("j"), 1, Outcome.SUCCEEDED, 5.0)])
    assert seen.names == {"nobody/j": number("j")}


UNKNOWN: list[Event] = [
    StartBegun(number("x"), 1, TWO, 0.0),
    Started(number("x"), 1, 0.0),
    ResizeBegun(number("x"), 1, TWO, 0.0),
    Resized(number("x"), 1, 0.0),
    MigrateBegun(number("x"), 1, TWO, 0.0),
    Migrated(number("x"), 1, 0.0),
    PreemptBegun(number("x"), 1, 0.0),
    Preempted(number("x"), 1, 0.0),
    Checkpointed(number("x"), 1, 0.0),
    Ended(number("x"), 1, Outcome.FAILED, 0.0),
    NodeLost("x", 0.0),
    NodeReturned("x", 0.0),
    NodeDraining("x", 0.0),
]


@pytest.mark.parametrize("event", UNKNOWN, ids=lambda event: type(event).__name__)
def test_an_unknown_name_is_refused(event: Event) -> None:
    with pytest.raises(UnknownNameError, match=rf"'x'|{number('x')}"):
        evolve(started(), [event])


def test_a_placement_on_an_unknown_node_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="n9"):
        evolve(view(cluster(1), [job("j")]), [StartBegun(number("j"), 1, placement(("n9", 1)), 0.0)])


@pytest.mark.parametrize(
    "placed",
    [
        placement(("n0", 0b10)),
        placement(("n1", 0b1), ("n0", 0b110)),
        placement(("n1", 0b1), ("n1", 0b1)),
        placement(("n1", 1 << 8)),
        placement(slot("n1", 0b1, need=Need(1, millicores=32_001))),
        placement(slot("n1", 0b1, need=Need(1, memory=256 * GB + 1))),
    ],
    ids=["held", "partly held", "twice", "no such device", "cores", "memory"],
)
def test_a_gang_that_does_not_fit_is_refused_as_a_whole(placed: Placement) -> None:
    before = evolve(started(), [Submitted(job("k"), 3.0)])
    with pytest.raises(OverbookedError) as caught:
        evolve(before, [StartBegun(number("k"), 1, placed, 4.0)])
    assert caught.value.job == number("k")
    assert free(before, "n1") == 0b11111111
    assert before.jobs[number("k")].phase is Phase.WAITING


def test_a_lost_node_takes_nothing_not_even_a_task_without_needs() -> None:
    before = evolve(view(cluster(1), [job("j")]), [NodeLost("n0", 0.0)])
    nothing = placement(slot("n0", 0, need=Need()))
    with pytest.raises(OverbookedError):
        evolve(before, [StartBegun(number("j"), 1, nothing, 1.0)])


def test_a_task_has_one_place() -> None:
    bare = slot("n0", 0, role=Role.SERVER, need=Need(millicores=1))
    with pytest.raises(EventError, match="two slots"):
        evolve(view(cluster(1), [job("j")]), [StartBegun(number("j"), 1, placement(bare, bare), 0.0)])


# Nodes


def test_a_lost_node_has_nothing_free_and_its_gangs_wait_in_their_old_place() -> None:
    both = placement(("n0", 0b1), ("n1", 0b1))
    after = evolve(started(both), [Checkpointed(number("j"), 1, 2.5), NodeLost("n0", 3.0)])
    node, state = after.cluster.node("n0"), after.jobs[number("j")]
    assert node.state is NodeState.LOST
    assert (node.free, node.millicores, node.memory) == (0, 0, 0)
    assert after.cluster.node("n1") == cluster(2).node("n1")
    assert (state.phase, state.generation, state.submitted) == (Phase.WAITING, 2, 0.0)
    assert (state.placement, state.started, state.checkpointed) == (None, None, None)


def test_a_running_job_whose_gang_is_whole_elsewhere_runs_on_smaller() -> None:
    spread = placement(("n0", 0b1), ("n1", 0b1), ("n1", 0b10))
    after = evolve(started(spread, gang=2), [NodeLost("n0", 3.0)])
    state = after.jobs[number("j")]
    assert (state.phase, state.generation, state.started) == (Phase.RUNNING, 2, 1.0)
    assert state.placement == Placement(spread.slots[1:])
    assert free(after, "n1") == 0b11111100


def test_a_job_that_lost_all_its_tasks_waits_even_without_a_gang() -> None:
    after = evolve(started(gang=0), [NodeLost("n0", 3.0)])
    assert (after.jobs[number("j")].phase, after.jobs[number("j")].placement) == (Phase.WAITING, None)


def test_losing_a_server_loses_the_gang() -> None:
    server = slot("n0", 0, role=Role.SERVER, need=Need(millicores=500))
    spread = placement(("n1", 0b1), ("n1", 0b10), server)
    after = evolve(started(spread, gang=1, servers=1), [NodeLost("n0", 3.0)])
    assert after.jobs[number("j")].phase is Phase.WAITING
    assert free(after, "n1") == 0b11111111


CHANGES: dict[type[ResizeBegun] | type[MigrateBegun], type[Resized] | type[Migrated]] = {
    ResizeBegun: Resized,
    MigrateBegun: Migrated,
}


@pytest.mark.parametrize("begin", CHANGES)
def test_a_change_goes_on_towards_what_is_left_of_its_target(
    begin: type[ResizeBegun] | type[MigrateBegun],
) -> None:
    spread = placement(("n0", 0b1), ("n1", 0b1))
    begun = evolve(started(placement(("n0", 0b1)), gang=1), [begin(number("j"), 2, spread, 3.0)])
    lost = evolve(begun, [NodeLost("n0", 4.0)])
    state = lost.jobs[number("j")]
    assert (state.phase, state.generation, state.started) == (begun.jobs[number("j")].phase, 3, 1.0)
    assert state.target == Placement(spread.slots[1:])
    done = evolve(lost, [CHANGES[begin](number("j"), 3, 5.0)])
    assert done.jobs[number("j")].phase is Phase.RUNNING
    assert done.jobs[number("j")].placement == Placement(spread.slots[1:])
    assert free(done, "n1") == 0b11111110


@pytest.mark.parametrize("begin", CHANGES)
def test_a_change_whose_target_is_lost_goes_back_to_where_the_job_is(
    begin: type[ResizeBegun] | type[MigrateBegun],
) -> None:
    there = placement(("n1", 0b01), ("n1", 0b10))
    changing = evolve(started(), [begin(number("j"), 2, there, 3.0)])
    state = evolve(changing, [NodeLost("n1", 4.0)]).jobs[number("j")]
    assert (state.phase, state.generation) == (changing.jobs[number("j")].phase, 3)
    assert (state.placement, state.target) == (TWO, TWO)


def test_devices_of_a_target_that_is_given_up_stay_held_until_its_tasks_are_gone() -> None:
    there = placement(("n1", 0b01), ("n2", 0b01))
    asked = job("j", 2, gang=2)
    changing = evolve(
        view(cluster(3)),
        [
            Submitted(asked, 0.0),
            StartBegun(number("j"), 1, TWO, 1.0),
            Started(number("j"), 1, 2.0),
            MigrateBegun(number("j"), 2, there, 3.0),
        ],
    )
    back = evolve(changing, [NodeLost("n1", 4.0)])
    assert free(back, "n2") == 0b11111110
    done = evolve(back, [Migrated(number("j"), 3, 5.0)])
    assert (free(done, "n2"), done.jobs[number("j")].placement) == (0b11111111, TWO)


@pytest.mark.parametrize("begin", CHANGES)
def test_a_change_of_which_no_whole_gang_is_left_goes_back_to_the_queue(
    begin: type[ResizeBegun] | type[MigrateBegun],
) -> None:
    here = placement(("n0", 0b1), ("n1", 0b1))
    changing = evolve(
        started(here), [begin(number("j"), 2, placement(("n1", 0b10), ("n0", 0b10)), 3.0)]
    )
    after = evolve(changing, [NodeLost("n0", 4.0)])
    state = after.jobs[number("j")]
    assert (state.phase, state.generation) == (Phase.WAITING, 3)
    assert (state.placement, state.target) == (None, None)
    assert free(after, "n1") == 0b11111111


def test_a_job_that_is_being_stopped_may_save_what_its_whole_gang_has_done() -> None:
    spread = placement(("n0", 0b1), ("n1", 0b1))
    stopping = evolve(started(spread, gang=1), [PreemptBegun(number("j"), 1, 3.0)])
    lost = evolve(stopping, [NodeLost("n0", 4.0)])
    assert lost.jobs[number("j")].phase is Phase.PREEMPTING
    done = evolve(lost, [Preempted(number("j"), 2, 5.0)])
    assert (done.jobs[number("j")].phase, free(done, "n1")) == (Phase.WAITING, 0b11111111)


def test_reports_of_a_lost_gang_are_ignored() -> None:
    begun = evolve(view(cluster(2), [job("j", 2)]), [StartBegun(number("j"), 1, TWO, 0.0)])
    after = evolve(begun, [NodeLost("n0", 1.0), Started(number("j"), 1, 2.0)])
    assert after.jobs[number("j")].phase is Phase.WAITING


def test_jobs_elsewhere_do_not_notice_a_lost_node() -> None:
    before = started()
    assert evolve(before, [NodeLost("n1", 3.0)]).jobs == before.jobs


def test_a_returned_node_is_wholly_free() -> None:
    after = evolve(started(), [NodeLost("n0", 3.0), NodeReturned("n0", 4.0)])
    assert after.cluster == cluster(2)


def test_a_draining_node_keeps_its_tasks_and_returns_with_them() -> None:
    before = started()
    draining = evolve(before, [NodeDraining("n0", 3.0)])
    assert draining.cluster.node("n0").state is NodeState.DRAINING
    assert draining.jobs == before.jobs
    assert evolve(draining, [NodeReturned("n0", 4.0)]).cluster == before.cluster


def test_what_ends_on_a_draining_node_is_free_when_it_returns() -> None:
    events: list[Event] = [
        NodeDraining("n0", 3.0),
        Ended(number("j"), 1, Outcome.SUCCEEDED, 4.0),
        NodeReturned("n0", 5.0),
    ]
    assert evolve(started(), events).cluster == cluster(2)


def test_a_lost_node_cannot_be_drained_back_to_life() -> None:
    lost = evolve(started(), [NodeLost("n0", 3.0)])
    assert evolve(lost, [NodeDraining("n0", 4.0)]).cluster == lost.cluster


def test_an_added_node_is_last_and_can_be_used_at_once() -> None:
    new = replace(cluster(3).node("n2"), free=0)
    here = placement(("n2", 0b1))
    events: list[Event] = [
        NodeAdded(new, 1.0),
        StartBegun(number("j"), 1, here, 2.0),
        Ended(number("j"), 1, Outcome.SUCCEEDED, 3.0),
    ]
    after = evolve(view(cluster(2), [job("j")]), events)
    assert after.cluster.nodes == cluster(3).nodes


def test_a_node_added_as_lost_has_nothing_free_until_it_returns() -> None:
    new = replace(cluster(3).node("n2"), state=NodeState.LOST)
    added = evolve(view(cluster(2)), [NodeAdded(new, 1.0)])
    assert free(added, "n2") == 0
    assert evolve(added, [NodeReturned("n2", 2.0)]).cluster == cluster(3)


def test_an_added_node_must_be_of_a_known_kind() -> None:
    there = cluster(1).node("n0")
    with pytest.raises(UnknownNameError, match="huge"):
        evolve(started(), [NodeAdded(replace(there, name="n9", configuration="huge"), 1.0)])


# The fold


def test_a_batch_is_the_same_as_one_by_one() -> None:
    events: list[Event] = [
        Checkpointed(number("j"), 1, 3.0),
        NodeDraining("n1", 3.0),
        PreemptBegun(number("j"), 1, 4.0),
        Preempted(number("j"), 1, 5.0),
    ]
    single = started()
    for event in events:
        single = evolve(single, [event])
    assert evolve(started(), events) == single


def test_no_events_change_nothing() -> None:
    assert evolve(started(), []) == started()


def test_the_old_view_stays_as_it_was() -> None:
    before = started()
    evolve(before, [NodeLost("n0", 3.0), Submitted(job("k"), 4.0)])
    assert before == started()


def test_a_refused_event_drops_its_whole_batch() -> None:
    before = started()
    with pytest.raises(NameTakenError):
        evolve(before, [NodeLost("n0", 3.0), Submitted(job("j"), 4.0)])
    assert before == started()


def test_a_view_built_by_hand_evolves_like_a_folded_one() -> None:
    kind = node_set()
    asked = job("j", 2)
    by_hand = view(cluster(2, kind), [running(asked, TWO, started=1.0)], version=3)
    assert by_hand == started()


# Service and batch


def test_service_is_devices_by_time_through_every_change() -> None:
    """2 devices from 10 to 30, 3 to 50 (it is resized when that is done, not when it is begun), none to
    80, 1 to 100: 40 + 60 + 20."""
    seen = evolve(view(cluster(2)), [Submitted(job("j", 1, most=4), 0.0)])
    two, three = placement(("n0", 1), ("n0", 2)), placement(("n0", 1), ("n0", 2), ("n1", 1))
    seen = evolve(seen, [StartBegun(number("j"), 1, two, 10.0), Started(number("j"), 1, 12.0)])
    assert seen.jobs[number("j")].attained(20.0) == 20.0
    seen = evolve(seen, [ResizeBegun(number("j"), 2, three, 25.0)])
    assert seen.jobs[number("j")].attained(30.0) == 40.0
    seen = evolve(seen, [Resized(number("j"), 2, 30.0)])
    seen = evolve(seen, [PreemptBegun(number("j"), 2, 45.0), Preempted(number("j"), 2, 50.0)])
    assert (seen.jobs[number("j")].attained(70.0), seen.jobs[number("j")].since) == (100.0, None)
    seen = evolve(
        seen, [StartBegun(number("j"), 3, placement(("n1", 8)), 80.0), Started(number("j"), 3, 80.0)]
    )
    assert seen.jobs[number("j")].attained(100.0) == 120.0


@pytest.mark.parametrize("gang", [1, 2])
def test_service_is_counted_up_to_the_loss_of_a_node(gang: int) -> None:
    """Two devices to 40; then one goes on, where the gang is one, else none."""
    both = running(job("j", gang, most=2), placement(("n0", 1), ("n1", 1)), started=0.0)
    seen = evolve(view(cluster(2), [both]), [NodeLost("n1", 40.0)])
    assert seen.jobs[number("j")].attained(40.0) == 80.0
    assert seen.jobs[number("j")].attained(50.0) == (90.0 if gang == 1 else 80.0)


def test_the_batch_is_the_one_last_ordered_and_goes_with_the_run() -> None:
    seen = evolve(view(cluster(2)), [Submitted(job("j"), 0.0)])
    one = placement(("n0", 1))
    seen = evolve(seen, [StartBegun(number("j"), 1, one, 0.0, 64), Started(number("j"), 1, 0.0)])
    assert seen.jobs[number("j")].batch == 64
    seen = evolve(seen, [ResizeBegun(number("j"), 2, one, 5.0, 128)])
    assert seen.jobs[number("j")].batch == 128
    seen = evolve(
        seen,
        [
            Resized(number("j"), 2, 6.0),
            PreemptBegun(number("j"), 2, 7.0),
            Preempted(number("j"), 2, 7.0),
        ],
    )
    assert seen.jobs[number("j")].batch is None
