"""What a turn makes of entries: refusals, reactions, jobs that end."""

import asyncio

import pytest

from muster.core.state.event_errors import EventError
from muster.daemon.gang.commands import LaunchTask
from muster.daemon.gang.events import Exited
from muster.daemon.gang.react import react
from muster.daemon.gang.state import GangState, Sight
from muster.daemon.loop import fold as fold_module
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.fold import Turn, fold
from muster.daemon.loop.state import State
from muster.model.event import Cancelled, Ended, NodeDraining, NodeLost, StartBegun, Started, Submitted
from muster.model.job import Program
from muster.model.task import Fact, StopAsked, TaskEnded, TaskExited, TaskOrdered, TaskStarted
from muster.model.view import Phase
from tests.builders import cluster, job, placement, view
from tests.numbers import number

PLACED = placement(("n0", 0b01), ("n0", 0b10))
J = number("j")


def empty() -> State:
    return State(view(cluster(2)), {}, "fifo")


def submitted(*names: str) -> Turn:
    return fold(empty(), {}, [Entry([Submitted(job(name, 2), 0.0)]) for name in names], 0.0)


def running() -> Turn:
    """A job of two plain processes, both started."""
    turn = submitted("j")
    turn = fold(turn.state, turn.sights, [Entry([StartBegun(J, 1, PLACED, 1.0)])], 1.0)
    tasks = [task.task for task in turn.state.gangs[J].tasks]
    started = [Entry(events=[(J, TaskStarted(task, 2.0))]) for task in tasks]
    return fold(turn.state, turn.sights, started, 2.0)


def exits(turn: Turn, code: int = 0) -> list[Entry]:
    tasks = turn.state.gangs[J].tasks
    return [Entry(events=[(J, Exited(TaskExited(each.task, 3.0, code), "boom"))]) for each in tasks]


def kinds(facts: list[Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def test_an_entry_that_conflicts_is_refused_and_the_rest_is_taken() -> None:
    async def scenario() -> None:
        entries = [Entry([Submitted(job(name, 1, number=at), 0.0)]) for at, name in enumerate("aab", 1)]
        for entry in entries:
            entry.done = asyncio.get_running_loop().create_future()
        turn = fold(empty(), {}, entries, 0.0)
        assert list(turn.state.view.jobs) == [1, 3]
        assert turn.accepted == [entries[0], entries[2]]
        assert turn.facts == [*entries[0].facts, *entries[2].facts]
        conflict = entries[1].done
        assert conflict is not None
        with pytest.raises(EventError, match="'nobody/a'"):
            await conflict
        # The others are only safe once they are in the journal.
        assert not any(entry.done and entry.done.done() for entry in turn.accepted)

    asyncio.run(scenario())


def test_the_facts_of_an_entry_are_taken_together_or_not_at_all() -> None:
    good, bad = NodeDraining("n0", 0.0), NodeDraining("no such node", 0.0)
    state = empty()
    turn = fold(state, {}, [Entry([good, bad])], 0.0)
    assert turn.state is state
    assert (turn.facts, turn.accepted) == ([], [])


def test_a_turn_leaves_the_state_it_begins_with_as_it_was() -> None:
    before = running()
    jobs, gangs, sights = dict(before.state.view.jobs), dict(before.state.gangs), dict(before.sights)
    after = fold(before.state, before.sights, exits(before), 3.0)
    assert J not in after.state.gangs
    assert (before.state.view.jobs, before.state.gangs, before.sights) == (jobs, gangs, sights)
    # A turn that was dropped can be tried again, to the same end.
    assert fold(before.state, before.sights, exits(before), 3.0).facts == after.facts


def test_a_gang_reacts_to_its_start_with_orders_and_commands() -> None:
    turn = submitted("j")
    turn = fold(turn.state, turn.sights, [Entry([StartBegun(J, 1, PLACED, 1.0)])], 1.0)
    assert kinds(turn.facts) == ["StartBegun", "TaskOrdered", "TaskOrdered"]
    ordered = [fact.task for fact in turn.facts if isinstance(fact, TaskOrdered)]
    launched = [each for each in turn.commands if isinstance(each[1], LaunchTask)]
    assert launched == [(J, LaunchTask(task)) for task in ordered]


def test_a_lost_node_reaches_the_gangs_on_it_alone() -> None:
    turn = running()
    elsewhere = placement(("n1", 0b01), ("n1", 0b10))
    entries = [
        Entry([Submitted(job("k", 2), 2.0)]),
        Entry([StartBegun(number("k"), 1, elsewhere, 2.0)]),
        Entry([NodeLost("n0", 3.0)]),
    ]
    turn = fold(turn.state, turn.sights, entries, 3.0)
    ended = [fact for fact in turn.facts if isinstance(fact, TaskEnded)]
    assert {fact.job for fact in ended} == {J}
    assert len(ended) == 2
    assert len(turn.state.gangs[number("k")].tasks) == 2


def test_jobs_that_end_are_kept_as_they_were_last() -> None:
    turn = running()
    assert turn.state.view.jobs[J].phase is Phase.RUNNING
    turn = fold(turn.state, turn.sights, exits(turn), 3.0)
    assert J not in turn.state.view.jobs
    assert J not in turn.sights
    closed = turn.closed[J]
    assert (closed.job.phase, closed.job.placement) == (Phase.RUNNING, PLACED)
    assert closed.gang.tasks == ()
    assert set(closed.gang.done) == set(PLACED.slots)


def test_a_failure_that_ends_a_job_is_in_its_last_state() -> None:
    turn = fold(empty(), {}, [Entry([Submitted(job("j", 2, program=Program(failures=0)), 0.0)])], 0.0)
    turn = fold(turn.state, turn.sights, [Entry([StartBegun(J, 1, PLACED, 1.0)])], 1.0)
    first, second = exits(turn, 1)
    turn = fold(turn.state, turn.sights, [first, second], 3.0)
    assert isinstance(turn.facts[-1], Ended)
    assert turn.closed[J].gang.failures == 1
    assert "boom" in turn.closed[J].gang.error


def test_a_job_cancelled_before_its_start_has_an_empty_gang() -> None:
    turn = submitted("j")
    turn = fold(turn.state, {}, [Entry([StopAsked(J, 1.0), Cancelled(J, 1.0)])], 1.0)
    assert turn.closed[J].gang == GangState()
    assert turn.closed[J].job.phase is Phase.WAITING


def test_a_reaction_that_the_view_refuses_still_records_the_end_of_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn = running()

    def confused(*arguments):  # type: ignore[no-untyped-def]
        reaction = react(*arguments)
        wrong = Started(J, 99, 3.0)  # of a generation that there never was, for a job that runs
        return type(reaction)((*reaction.facts, wrong), reaction.commands, reaction.sight)

    monkeypatch.setattr(fold_module, "react", confused)
    view_before = turn.state.view
    first, _ = exits(turn)
    after = fold(turn.state, turn.sights, [first], 3.0)
    assert kinds(after.facts) == ["TaskEnded"]
    assert after.state.view is view_before
    assert len(after.state.gangs[J].tasks) == 1


def test_a_gang_that_cannot_react_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = submitted("j", "k")

    def broken(gang, sight, state, event, now):  # type: ignore[no-untyped-def]
        if state.number == J:
            raise RuntimeError("a bug")
        return react(gang, sight, state, event, now)

    monkeypatch.setattr(fold_module, "react", broken)
    elsewhere = placement(("n1", 0b01), ("n1", 0b10))
    starts = [StartBegun(J, 1, PLACED, 1.0), StartBegun(number("k"), 1, elsewhere, 1.0)]
    turn = fold(turn.state, turn.sights, [Entry([fact]) for fact in starts], 1.0)
    assert len(turn.state.gangs[number("k")].tasks) == 2
    assert turn.state.gangs[J].tasks == ()


def test_events_for_a_gang_that_is_gone_do_nothing() -> None:
    turn = running()
    late = exits(turn)
    turn = fold(turn.state, turn.sights, exits(turn), 3.0)
    again = fold(turn.state, turn.sights, late, 4.0)
    assert (again.facts, again.commands) == ([], [])
    assert again.accepted == late
    assert again.sights.get(J, Sight()) == Sight()
