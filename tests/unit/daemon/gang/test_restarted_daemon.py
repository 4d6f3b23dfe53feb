"""One job's tasks after the daemon was started again, and orders that got lost."""

import signal

import pytest

from muster.daemon.gang.transitions import Goal
from muster.model.event import (
    Ended,
    Outcome,
    Resized,
    Started,
)
from muster.model.job import Program
from muster.model.task import (
    RunBroken,
    TaskEnded,
    TaskOrdered,
)
from muster.wire.tasks.messages import MemberPlan
from tests.builders import job
from tests.unit.daemon.rig import THREE, TWO, Rig, fixed, live, restored


def test_a_restarted_daemon_orders_what_was_never_ordered() -> None:
    rig = Rig(job("j", 2))
    first = next(n for n, fact in enumerate(rig.journal) if isinstance(fact, TaskOrdered))
    again = restored(rig, rig.journal[: first + 1])
    assert [task.slot for task in again.done.ordered] == [TWO.slots[1]]


def test_an_order_that_never_arrived_is_given_again() -> None:
    again = restored(Rig(job("j", 2)))
    assert again.done.ordered == []
    again.end("worker-0", None, begun=False)
    assert [task.slot for task in again.done.ordered] == [TWO.slots[0]]
    again.run_all()
    assert len(again.kinds(Started)) == 1


def refuse(rig: Rig) -> None:
    """The executor cannot start the first task, however often it is told to."""
    while rig.gang.goal is Goal.RUN:
        rig.end("worker-0", None, error="No space left on device", begun=False)
    rig.end("worker-1", None, signal.SIGTERM)


def test_an_executor_that_cannot_start_a_task_is_asked_again_later() -> None:
    """A disk may be full for a while: that is a loss, and no failure of the job."""
    rig = Rig(job("j", 2))
    refuse(rig)
    assert len(rig.done.ordered) < 12
    (broken,) = (fact for fact in rig.journal if isinstance(fact, RunBroken))
    assert "No space left" in broken.cause
    assert not broken.fault and broken.delay > 0.0
    rig.pass_time()
    rig.run_all()
    assert len(rig.kinds(Started)) == 1


def test_an_executor_that_never_can_fails_the_job_in_the_end() -> None:
    rig = Rig(job("j", 2, program=Program(losses=2)))
    for _ in range(3):
        refuse(rig)
        rig.pass_time()
    assert rig.ended.outcome is Outcome.FAILED
    assert "after 3 losses in a row" in rig.ended.error and "No space left" in rig.ended.error


def test_ends_that_happened_meanwhile_count() -> None:
    rig = fixed()
    rig.end("worker-0")
    again = restored(rig)
    assert again.names == {"worker-1"}
    assert again.done.ordered == []
    again.end("worker-1")
    assert len(again.kinds(Ended)) == 1


def test_budgets_go_on_counting() -> None:
    rig = fixed(failures=1)
    rig.end("worker-0", 3)
    rig.end("worker-1", None, signal.SIGTERM)
    again = restored(rig)
    again.pass_time()
    again.end("worker-1", 3)
    again.end("worker-0", None, signal.SIGTERM)
    assert again.ended.outcome is Outcome.FAILED


def test_live_tasks_are_waited_for_before_anything_is_decided() -> None:
    rig = live()
    again = restored(rig)
    assert again.done.ordered == []
    again.run_all()
    for name in ("worker-0", "worker-1"):
        again.greet(name, formation=1)
        again.train(1, "worker-0", "worker-1")
    assert again.done.ordered == []
    assert again.done.signals == []
    assert not [message for _, message in again.done.said if isinstance(message, MemberPlan)]


def test_a_live_change_under_way_is_gone_on_with() -> None:
    rig = live()
    rig.resize(THREE)
    again = restored(rig)
    again.run_all()
    for name in ("worker-0", "worker-1"):
        again.greet(name, formation=1)
        again.train(1, "worker-0", "worker-1")
    again.greet("worker-2")
    plan = again.done.said[-1][1]
    assert isinstance(plan, MemberPlan)
    again.train(plan.formation, "worker-0", "worker-1", "worker-2")
    assert len(again.kinds(Resized)) == 1


@pytest.mark.parametrize("kept", range(3, 9))
def test_nothing_is_ordered_twice_wherever_the_journal_ends(kept: int) -> None:
    rig = fixed(failures=5)
    rig.end("worker-0", 3)
    rig.end("worker-1", 3)
    journal = rig.journal[:kept]
    before = {fact.task for fact in journal if isinstance(fact, TaskOrdered)}
    again = restored(rig, journal)
    assert not before & {task.task for task in again.done.ordered}
    gone = {f.exited.task for f in journal if isinstance(f, TaskEnded)}
    assert {task.task for task in again.gang.tasks} >= before - gone
