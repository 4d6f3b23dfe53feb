"""What belongs to an old formation never counts in a new one."""

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from muster.roster.acts import Tell
from muster.runtime.errors import BrokenGroupError
from muster.runtime.members.crew import Pending, plan_name
from muster.runtime.settings import TaskSettings
from muster.wire.tasks.messages import Member, MemberPlan
from tests.runtime.scripts.jobs import LONG, Job

ME = Member("worker-0", "worker", "127.0.0.1:1")
OTHER = Member("worker-1", "worker", "127.0.0.1:2")


@dataclass
class Built:
    """Stands for a crew."""

    plan: MemberPlan
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass
class Yard:
    """Builds crews when it is let; keeps them all."""

    settings: TaskSettings = field(default_factory=lambda: TaskSettings(task=ME.task))
    may: threading.Event = field(default_factory=threading.Event)
    fails: bool = False
    made: list[Built] = field(default_factory=list)

    def build(self, plan: MemberPlan) -> Any:
        self.may.wait(LONG)
        if self.fails:
            raise BrokenGroupError("nobody came")
        self.made.append(Built(plan))
        return self.made[-1]


def plan(formation: int, after: int, *members: Member) -> MemberPlan:
    return MemberPlan(formation, after, members or (ME, OTHER))


def settle() -> None:
    """Until nothing is being built."""
    for thread in threading.enumerate():
        if thread.name == "muster-build":
            thread.join(LONG)


@pytest.fixture
def yard() -> Yard:
    return Yard()


def pending_at(yard: Yard, formation: int) -> Pending:
    pending: Pending = Pending(yard)  # type: ignore[arg-type]
    pending.discard(formation)
    return pending


def test_a_plan_is_built_once(yard: Yard) -> None:
    pending = pending_at(yard, 1)
    yard.may.set()
    for _ in range(3):
        pending.offer(plan(2, 1))
    settle()
    assert pending.built() == 2
    assert len(yard.made) == 1
    assert pending.take(2)[1] is yard.made[0]  # type: ignore[comparison-overlap]
    assert pending.built() == 0


def test_a_plan_older_than_what_was_seen_is_ignored(yard: Yard) -> None:
    pending = pending_at(yard, 5)
    yard.may.set()
    for formation in (3, 4, 5):
        pending.offer(plan(formation, 5))
    settle()
    assert (pending.built(), yard.made) == (0, [])


def test_the_newer_of_two_plans_counts(yard: Yard) -> None:
    pending = pending_at(yard, 1)
    pending.offer(plan(2, 1))
    pending.offer(plan(3, 1))
    yard.may.set()
    settle()
    assert pending.built() == 3
    assert {built.plan.formation: built.closed for built in yard.made} == {2: True, 3: False}


def test_a_leaver_has_nothing_to_build(yard: Yard) -> None:
    pending = pending_at(yard, 1)
    pending.offer(plan(2, 1, OTHER))
    assert pending.built() == 2
    assert pending.take(2)[1] is None


def test_what_was_planned_before_a_failure_is_void(yard: Yard) -> None:
    """Survivors of 1 agreed on 2 themselves, while the coordinator's plan was being built."""
    pending = pending_at(yard, 1)
    pending.offer(plan(2, 1))
    pending.offer(plan(3, 1))
    pending.discard(2)
    yard.may.set()
    settle()
    assert pending.built() == 0
    assert all(built.closed for built in yard.made)


def test_what_was_built_before_a_failure_is_closed(yard: Yard) -> None:
    pending = pending_at(yard, 1)
    yard.may.set()
    pending.offer(plan(3, 1))
    settle()
    pending.discard(2)
    assert pending.built() == 0
    assert yard.made[0].closed


def test_a_plan_that_follows_what_is_being_entered_is_kept(yard: Yard) -> None:
    """The coordinator heard of 2 from a faster member and planned on, while we still enter 2."""
    pending = pending_at(yard, 1)
    yard.may.set()
    pending.offer(plan(3, 2))
    settle()
    pending.discard(2)
    assert pending.built() == 3


def test_a_plan_that_cannot_be_built_is_no_plan(yard: Yard) -> None:
    pending = pending_at(yard, 1)
    yard.fails = True
    yard.may.set()
    pending.offer(plan(2, 1))
    settle()
    assert pending.built() == 0
    yard.fails = False
    pending.offer(plan(3, 1))
    settle()
    assert pending.built() == 3


def test_plans_of_one_number_do_not_meet() -> None:
    """After a failure the members' plan may have the number of the coordinator's."""
    ours, theirs = plan(2, 1, ME), plan(2, 1, ME, OTHER)
    moved = plan(2, 1, ME, replace(OTHER, address="127.0.0.1:3"))
    led = replace(ours, leader=ME.task)
    assert len({plan_name(each) for each in (ours, theirs, moved, led)}) == 4


def test_stale_orders_change_nothing_in_a_living_job(tmp_path: Path) -> None:
    with Job(tmp_path, "--epochs", "100000", "--pace", "0.01", workers=2) as job:
        job.ahead(3)
        job.change(3)
        job.change(2)
        coordinator = job._coordinator
        assert coordinator is not None
        members = tuple(
            Member(task, "worker", job.address(task)) for task in ("worker-0", "worker-1", "worker-2")
        )
        alone = (members[0],)
        # It stands in formation 3. The first was carried out long ago; the second changes a formation
        # of the past; the third has a number that was seen; the last follows what never was.
        for stale in (
            MemberPlan(2, 1, members),
            MemberPlan(9, 2, alone),
            MemberPlan(3, 3, alone),
            MemberPlan(12, 11, alone),
        ):
            for task in ("worker-0", "worker-1"):
                coordinator._carry_out(Tell(task, stale))
        job.ahead(20)
        assert job.history.formation == 3
        assert job.history.members == ("worker-0", "worker-1")
        wrong = {"task": "worker-0", "formation": 3, "token": "wrong"}
        with pytest.raises(ConnectionError):
            job.ask(job.address("worker-0"), kind="regroup", **wrong)
        past = job.ask(job.address("worker-0"), kind="regroup", task="worker-2", formation=2)
        assert past == {"excluded": 3}
        job.change(3)  # what is not stale still counts
        job.ahead(5)
        outcome = job.end()
    assert [len(c.members) for c in outcome.history.changes] == [2, 3, 2, 3]
