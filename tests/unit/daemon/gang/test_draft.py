"""A reaction in progress: names, attempts, and what it leaves alone."""

from dataclasses import replace

from muster.daemon.gang.commands import LaunchTask, SignalTask
from muster.daemon.gang.draft import ReactionDraft
from muster.daemon.gang.state import GangState, Sight
from muster.model.event import Started, TasksLost
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.task import TaskEnded, TaskExited, TaskOrdered
from muster.model.view import Phase
from tests.builders import SERVER_TASK, job, placement, running, slot

PLACED = placement(("n0", 0b01), ("n0", 0b10), slot("n1", 0, role=Role.SERVER, need=SERVER_TASK))


def draft(**gang: object) -> ReactionDraft:
    state = running(job("j", 2, servers=1), PLACED)
    return ReactionDraft(GangState(**gang), Sight(), state, 1.0)  # type: ignore[arg-type]


def test_facts_are_folded_as_they_are_noted() -> None:
    made = draft()
    made.order("worker-0", PLACED.slots[0])
    assert [task.task.name for task in made.gang.tasks] == ["worker-0"]
    assert made.has_workers
    reaction = made.reaction()
    (ordered,) = reaction.facts
    assert isinstance(ordered, TaskOrdered)
    assert reaction.commands == (LaunchTask(ordered.task),)


def test_a_task_ordered_again_under_its_name_is_the_next_attempt() -> None:
    made = draft()
    for _ in range(3):
        made.order("worker-0", PLACED.slots[0])
        made.note(TaskEnded(made.key, TaskExited(made.gang.tasks[0].task, 1.0), 1.0))
    ordered = [fact.task for fact in made.reaction().facts if isinstance(fact, TaskOrdered)]
    assert [task.attempt for task in ordered] == [0, 1, 2]
    assert len(set(ordered)) == 3


def test_names_of_the_runtime_are_never_used_again_others_are_ranks() -> None:
    worker, server = PLACED.slots[0], PLACED.slots[2]
    used = ("worker-0", "worker-1", "worker-4", "server-0")
    live = draft(live=True, used=used)
    assert (live.new_name(worker), live.new_name(server)) == ("worker-5", "server-1")
    plain = draft(used=used)
    assert (plain.new_name(worker), plain.new_name(server)) == ("worker-0", "server-0")


def test_the_roster_it_began_with_is_not_changed() -> None:
    sight = Sight()
    made = ReactionDraft(GangState(), sight, running(job("j", 2), PLACED), 1.0)
    made.roster.resize(2, 0)
    assert made.sight.roster is made.roster
    assert sight.roster is not made.roster
    assert sum(sight.roster.target.values()) == 0
    assert sum(made.sight.roster.target.values()) == 2


def test_the_job_is_as_the_view_will_have_it() -> None:
    smaller = Placement(PLACED.slots[:1])
    state = running(job("j", 2), PLACED, phase=Phase.RESIZING, target=smaller)
    made = ReactionDraft(GangState(), Sight(), state, 1.0)
    assert made.placement == smaller, "where its tasks should be"
    made.note(Started(made.key, 1, 1.0))
    assert (made.job.phase, made.job.placement, made.job.target) == (Phase.RUNNING, smaller, None)
    made.note(TasksLost(made.key, 2, PLACED, 1.0))
    assert (made.job.generation, made.placement) == (2, PLACED)
    assert state == replace(state), "what it began with stays"


def test_a_signal_goes_to_every_task() -> None:
    made = draft()
    for place, name in zip(PLACED.slots, ("worker-0", "worker-1", "server-0"), strict=True):
        made.order(name, place)
    made.signal(15)
    signals = [each for each in made.reaction().commands if isinstance(each, SignalTask)]
    assert [(each.task.name, each.number) for each in signals] == [
        ("worker-0", 15),
        ("worker-1", 15),
        ("server-0", 15),
    ]
