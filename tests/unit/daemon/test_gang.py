"""One job's tasks: what is ordered, journalled and reported, whatever happens to them."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from muster.core.state.evolve import evolve
from muster.daemon.gang.gang import STILLBORN, UNHEARD, Gang
from muster.daemon.gang.hands import Task
from muster.daemon.gang.images import GangImage, folded
from muster.model.decision import Decision, Kind
from muster.model.event import (
    Cancelled,
    Ended,
    Outcome,
    Preempted,
    Reshaped,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
    Submitted,
    TasksLost,
)
from muster.model.job import Job, Program, Role
from muster.model.placement import Placement
from muster.model.reason import Code, Reason
from muster.model.task import Fact, RuntimeSeen, TaskEnded, TaskExited, TaskId, TaskOrdered, TaskStarted
from muster.model.view import View
from muster.wire.messages import Changed, Failed, Hello, Message, Plan, StepDone, Stop
from muster.wire.messages import Ended as Left
from tests.builders import SERVER_TASK, cluster, job, placement, slot, view

TWO = placement(("n0", 0b01), ("n0", 0b10))
THREE = placement(("n0", 0b01), ("n0", 0b10), ("n1", 1))
WHY = Reason(Code.STARTED)
SERVER = slot("n0", 0, role=Role.SERVER, need=SERVER_TASK)


@dataclass
class Hands:
    """Notes down whatever a gang does."""

    facts: list[Fact] = field(default_factory=list)
    ordered: list[Task] = field(default_factory=list)
    signals: list[tuple[str, int]] = field(default_factory=list)
    said: list[tuple[str, Message]] = field(default_factory=list)
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def now(self) -> float:
        return float(len(self.facts))

    def note(self, fact: Fact) -> None:
        self.facts.append(fact)

    def order(self, task: Task) -> None:
        self.ordered.append(task)

    def signal(self, task: TaskId, number: int) -> None:
        self.signals.append((task.name, number))

    def tell(self, task: str, message: Message) -> None:
        self.said.append((task, message))

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self.timers.append((seconds, what))

    def tail(self, task: TaskId) -> str:
        return "the last line"

    def pass_time(self) -> None:
        """Every timer that was set so far."""
        timers, self.timers = self.timers, []
        for _, what in sorted(timers, key=lambda timer: timer[0]):
            what()


class Rig:
    """A gang, its hands, and its executor and runtime played by the test."""

    def __init__(self, asked: Job, placed: Placement = TWO) -> None:
        self.hands, self.job = Hands(), replace(asked, number=7)
        self.gang = Gang(self.job, self.hands)
        self.generation = 0
        self.start(placed)

    def start(self, placed: Placement = TWO) -> None:
        self.decide(Kind.START, placed)

    def decide(self, kind: Kind, placed: Placement | None = None) -> None:
        self.generation += kind is not Kind.PREEMPT
        self.gang.carry_out(Decision(kind, 7, self.generation, WHY, placed))

    def run_all(self) -> None:
        for task in list(self.gang.tasks.values()):
            self.gang.started(TaskStarted(task.id, 1.0))

    def end(self, name: str, code: int | None = 0, number: int | None = None, **more: object) -> None:
        task = self.gang.tasks[name]
        self.gang.exited(TaskExited(task.id, 2.0, code, number, **more))  # type: ignore[arg-type]

    def greet(self, name: str, generation: int = 0) -> None:
        role = name.rpartition("-")[0]
        ready = generation == 0
        hello = Hello("j", name, role, f"h:{name}", 1, generation=generation, ready=ready)
        self.gang.hear(hello)

    def train(self, generation: int, *names: str) -> None:
        """These are the members now."""
        self.gang.hear(Changed(names[0], generation, 5, names, 0.1, "plan"))

    def step(self, generation: int, *names: str) -> None:
        """Each of them has done a step, and has the whole state."""
        for name in names:
            self.gang.step(StepDone(name, generation, 6, 0, 8, 1.0, 0.1, 0.1, 0.0, 0.0, holds=True))

    def kinds(self, *wanted: type[Fact]) -> list[Fact]:
        return [fact for fact in self.hands.facts if isinstance(fact, wanted or object)]

    @property
    def names(self) -> set[str]:
        return set(self.gang.tasks)


def live(most: int = 4) -> Rig:
    """A job of the runtime that trains with two workers."""
    rig = Rig(job("j", 1, most=most))
    rig.run_all()
    for name in ("worker-0", "worker-1"):
        rig.greet(name)
    rig.train(1, "worker-0", "worker-1")
    rig.step(1, "worker-0", "worker-1")
    return rig


def fixed(**program: object) -> Rig:
    """A job of two plain processes that run."""
    rig = Rig(job("j", 2, program=Program(**program)))  # type: ignore[arg-type]
    rig.run_all()
    return rig


def test_every_slot_gets_a_task_that_is_journalled_first() -> None:
    rig = Rig(job("j", 2))
    assert [task.slot for task in rig.hands.ordered] == list(TWO.slots)
    assert [type(fact) for fact in rig.hands.facts] == [TaskOrdered, TaskOrdered]
    assert not rig.kinds(Started)
    rig.run_all()
    assert rig.kinds(Started) == [Started(7, 1, 2.0)]


def test_a_plain_job_succeeds_when_all_its_workers_have_ended_well() -> None:
    rig = fixed()
    rig.end("worker-0")
    assert not rig.kinds(Ended)
    rig.end("worker-1")
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.SUCCEEDED


def test_servers_go_when_the_workers_have_ended() -> None:
    rig = Rig(job("j", 1, servers=1), Placement((*placement(("n0", 1)).slots, SERVER)))
    rig.run_all()
    rig.end("worker-0")
    assert rig.hands.signals == [("server-0", signal.SIGTERM)]
    rig.end("server-0", None, signal.SIGTERM)
    assert [fact.outcome for fact in rig.kinds(Ended) if isinstance(fact, Ended)] == [Outcome.SUCCEEDED]


def test_the_gang_ends_as_a_whole_when_a_task_fails_for_good() -> None:
    rig = fixed()
    rig.end("worker-0", 3)
    assert rig.hands.signals == [("worker-1", signal.SIGTERM)]
    assert not rig.kinds(Ended)
    rig.hands.pass_time()
    assert rig.hands.signals[-1] == ("worker-1", signal.SIGKILL)
    rig.end("worker-1", None, signal.SIGKILL)
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.FAILED
    assert rig.gang.exit_code == 3
    assert rig.gang.error == "worker-0 ended with exit code 3\nthe last line"


def test_a_task_may_fail_alone_while_the_budget_lasts() -> None:
    rig = fixed(failures=1)
    rig.end("worker-0", 3)
    assert rig.names == {"worker-0", "worker-1"}
    again = rig.hands.ordered[-1].id
    assert again not in [task.id for task in rig.hands.ordered[:-1]]
    rig.end("worker-0", 3)
    assert rig.names == {"worker-1"}


def test_who_is_killed_from_outside_is_no_failure_of_the_job() -> None:
    rig = fixed(failures=0, losses=2)
    for _ in range(2):
        rig.end("worker-1", None, signal.SIGKILL)
    assert (rig.gang.failures, rig.gang.losses) == (0, 2)
    assert rig.names == {"worker-0", "worker-1"}
    rig.end("worker-1", None, signal.SIGKILL)
    assert rig.names == {"worker-0"}


def test_a_segmentation_fault_is_the_jobs_own() -> None:
    rig = fixed()
    rig.end("worker-1", None, signal.SIGSEGV)
    assert rig.gang.failures == 1
    assert "SIGSEGV" in rig.gang.error


def test_a_command_that_is_not_there_fails_the_job() -> None:
    rig = Rig(job("j", 2))
    rig.end("worker-0", 127, error="no such command: pythn", begun=False)
    rig.end("worker-1", None, signal.SIGTERM)
    assert [type(fact) for fact in rig.kinds(Ended)] == [Ended]
    assert "no such command" in rig.gang.error


def test_preemption_asks_for_a_checkpoint_then_ends_then_kills() -> None:
    rig = fixed(checkpoint_signal="SIGUSR1")
    rig.decide(Kind.PREEMPT)
    sent = [number for name, number in rig.hands.signals if name == "worker-0"]
    assert sent == [signal.SIGUSR1]
    rig.hands.pass_time()
    rig.hands.pass_time()
    sent = [number for name, number in rig.hands.signals if name == "worker-0"]
    assert sent == [signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL]
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGKILL)
    assert [type(fact) for fact in rig.kinds(Preempted, Ended)] == [Preempted]


def test_a_job_that_ends_before_it_is_told_to_has_ended() -> None:
    rig = fixed(checkpoint_signal="SIGUSR1")
    rig.decide(Kind.PREEMPT)
    rig.end("worker-0")
    rig.end("worker-1")
    assert [type(fact) for fact in rig.kinds(Preempted, Ended)] == [Ended]


def test_a_preempted_job_starts_again_with_new_tasks() -> None:
    rig = fixed()
    rig.decide(Kind.PREEMPT)
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGTERM)
    rig.start(THREE)
    rig.run_all()
    assert len(rig.names) == 3
    assert [fact.generation for fact in rig.kinds(Started) if isinstance(fact, Started)] == [1, 2]
    ids = [task.id for task in rig.hands.ordered]
    assert len(set(ids)) == len(ids)


def test_a_job_without_the_runtime_is_stopped_and_started_to_change() -> None:
    rig = Rig(job("j", 2, most=3, restarts=True))
    rig.run_all()
    rig.decide(Kind.RESIZE, THREE)
    assert len(rig.hands.ordered) == 2
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGTERM)
    assert len(rig.names) == 3
    rig.run_all()
    assert [type(fact) for fact in rig.kinds(Started, Resized, Preempted)] == [Started, Resized]


def test_cancel_is_told_when_all_are_gone_and_once() -> None:
    rig = fixed()
    rig.gang.cancel()
    rig.gang.cancel()
    rig.end("worker-0", None, signal.SIGTERM)
    assert not rig.kinds(Cancelled)
    rig.end("worker-1", None, signal.SIGTERM)
    rig.hands.pass_time()
    assert len(rig.kinds(Cancelled)) == 1


def test_a_late_word_about_a_task_of_before_is_ignored() -> None:
    rig = fixed()
    old = rig.gang.tasks["worker-0"].id
    rig.end("worker-0", None, signal.SIGKILL)
    before = len(rig.hands.facts)
    rig.gang.exited(TaskExited(old, 9.0, 1))
    rig.gang.started(TaskStarted(old, 9.0))
    assert len(rig.hands.facts) == before


# --- jobs of the runtime ---


def test_a_job_that_can_be_resized_has_started_when_it_trains() -> None:
    rig = Rig(job("j", 1, most=4))
    rig.run_all()
    assert not rig.kinds(Started)
    for name in ("worker-0", "worker-1"):
        rig.greet(name)
    assert [type(message) for _, message in rig.hands.said] == [Plan, Plan]
    assert not rig.kinds(Started)
    rig.train(1, "worker-0", "worker-1")
    assert len(rig.kinds(Started)) == 1
    assert len(rig.kinds(RuntimeSeen)) == 1


def test_one_that_never_speaks_is_of_fixed_size() -> None:
    rig = Rig(job("j", 1, most=4))
    rig.run_all()
    assert [seconds for seconds, _ in rig.hands.timers] == [UNHEARD]
    rig.hands.pass_time()
    (reshaped,) = rig.kinds(Reshaped)
    assert isinstance(reshaped, Reshaped)
    assert [(spec.gang, spec.most) for spec in reshaped.roles] == [(2, 2)]
    assert len(rig.kinds(Started)) == 1


def test_live_growth_starts_joiners_and_leaves_the_others_alone() -> None:
    rig = live()
    rig.decide(Kind.RESIZE, THREE)
    assert rig.hands.ordered[-1].slot == THREE.slots[2]
    assert rig.hands.signals == []
    rig.greet("worker-2")
    assert not rig.kinds(Resized)
    rig.train(2, "worker-0", "worker-1", "worker-2")
    assert [fact.generation for fact in rig.kinds(Resized) if isinstance(fact, Resized)] == [2]


def test_live_shrinking_gives_up_the_slot_that_was_decided() -> None:
    rig = live()
    keeps = Placement(TWO.slots[1:])
    rig.decide(Kind.RESIZE, keeps)
    plan = rig.hands.said[-1][1]
    assert isinstance(plan, Plan)
    assert [member.task for member in plan.members] == ["worker-1"]
    rig.train(plan.generation, "worker-1")
    assert not rig.kinds(Resized)
    rig.end("worker-0")
    assert len(rig.kinds(Resized)) == 1
    assert rig.hands.signals == []


def test_live_migration_brings_the_new_before_the_old_goes() -> None:
    rig = live()
    moved = placement(("n1", 1), ("n1", 2))
    rig.decide(Kind.MIGRATE, moved)
    assert rig.names == {"worker-0", "worker-1", "worker-2", "worker-3"}
    for name in ("worker-2", "worker-3"):
        rig.greet(name)
    everybody = rig.hands.said[-1][1]
    assert isinstance(everybody, Plan)
    rig.train(everybody.generation, *(member.task for member in everybody.members))
    rig.step(everybody.generation, *sorted(rig.names))
    plan = rig.hands.said[-1][1]
    assert isinstance(plan, Plan)
    assert {member.task for member in plan.members} == {"worker-2", "worker-3"}


def test_a_killed_worker_is_replaced_in_its_place() -> None:
    rig = live()
    rig.end("worker-1", None, signal.SIGKILL)
    rig.gang.hear(Changed("worker-0", 2, 6, ("worker-0",), 0.1, "failure", ("worker-1",)))
    assert rig.hands.ordered[-1].slot == TWO.slots[1]
    assert rig.names == {"worker-0", "worker-2"}
    assert not rig.kinds(Ended, TasksLost)


def test_a_worker_whose_death_the_others_tell_of_first_is_replaced_as_well() -> None:
    rig = live()
    rig.gang.hear(Changed("worker-0", 2, 6, ("worker-0",), 0.1, "failure", ("worker-1",)))
    assert rig.names == {"worker-0", "worker-1"}, "its slot is held until its process is gone"
    rig.end("worker-1", None, signal.SIGKILL)
    assert rig.hands.ordered[-1].slot == TWO.slots[1]
    assert rig.names == {"worker-0", "worker-2"}
    assert not rig.kinds(Ended, TasksLost)


def test_joiners_that_die_again_and_again_are_given_up() -> None:
    rig = live()
    rig.decide(Kind.RESIZE, THREE)
    for turn in range(STILLBORN + 1):
        rig.end(f"worker-{turn + 2}", None, signal.SIGKILL)
    assert rig.names == {"worker-0", "worker-1"}
    assert [type(fact) for fact in rig.kinds(Resized, TasksLost)] == [Resized, TasksLost]


def test_a_live_job_is_stopped_by_a_word_and_leaves_with_a_checkpoint() -> None:
    rig = live()
    rig.decide(Kind.PREEMPT)
    told = dict(rig.hands.said[-2:])
    assert all(isinstance(each, Stop) and each.leave for each in told.values())
    assert rig.hands.signals == []
    for name in ("worker-0", "worker-1"):
        rig.gang.hear(Left(name, 1, 9, "stopped"))
        rig.end(name)
    assert [type(fact) for fact in rig.kinds(Preempted, Ended)] == [Preempted]


def test_a_training_that_finishes_while_it_is_stopped_has_finished() -> None:
    rig = live()
    rig.decide(Kind.PREEMPT)
    for name in ("worker-0", "worker-1"):
        rig.gang.hear(Left(name, 1, 9, "finished"))
        rig.end(name)
    assert [type(fact) for fact in rig.kinds(Preempted, Ended)] == [Ended]


def test_a_live_job_finishes_when_its_processes_have_ended() -> None:
    rig = live()
    for name in ("worker-0", "worker-1"):
        rig.gang.hear(Left(name, 1, 9, "finished"))
    assert not rig.kinds(Ended)
    rig.end("worker-1")
    assert rig.hands.signals == []
    rig.end("worker-0")
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.SUCCEEDED


def test_an_error_after_the_training_fails_the_job() -> None:
    rig = live()
    for name in ("worker-0", "worker-1"):
        rig.gang.hear(Left(name, 1, 9, "finished"))
    rig.end("worker-1")
    rig.end("worker-0", 1)
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.FAILED


def test_an_error_in_the_users_code_ends_a_live_job() -> None:
    rig = live()
    rig.gang.hear(Failed("worker-0", "ValueError: no", "Traceback: ValueError: no"))
    rig.end("worker-0", 1)
    rig.end("worker-1", None, signal.SIGTERM)
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.FAILED
    assert rig.gang.error.startswith("Traceback")


# --- a daemon that is started again ---


def replayed(rig: Rig, *events: object) -> tuple[View, Mapping[int, GangImage]]:
    """What the journal of such a history folds to."""
    at = view(cluster(2))
    images: Mapping[int, GangImage] = {}
    for fact in (Submitted(rig.job, 0.0), *events, *rig.hands.facts):
        if isinstance(fact, Submitted | StartBegun | Started | ResizeBegun | Resized):
            at = evolve(at, [fact])
        images = folded(images, fact)  # type: ignore[arg-type]
    return at, images


def restored(rig: Rig, *events: object) -> Rig:
    at, images = replayed(rig, *events)
    other = Rig.__new__(Rig)
    other.hands, other.job, other.generation = Hands(), rig.job, rig.generation
    other.gang = Gang(rig.job, other.hands)
    other.gang.restore(at.jobs[7], images[7])
    return other


BEGUN = StartBegun(7, 1, TWO, 0.0)


def test_a_restarted_daemon_orders_what_was_never_ordered() -> None:
    rig = Rig(job("j", 2))
    rig.hands.facts = rig.hands.facts[:1]
    again = restored(rig, BEGUN)
    assert [task.slot for task in again.hands.ordered] == [TWO.slots[1]]


def test_an_order_that_never_arrived_is_given_again() -> None:
    again = restored(Rig(job("j", 2)), BEGUN)
    assert again.hands.ordered == []
    again.end("worker-0", None, begun=False)
    assert [task.slot for task in again.hands.ordered] == [TWO.slots[0]]
    again.run_all()
    assert len(again.kinds(Started)) == 1


def test_an_executor_that_refuses_again_and_again_fails_the_job() -> None:
    rig = Rig(job("j", 2))
    while rig.gang.goal == "run":
        rig.end("worker-0", None, error="no room on any node", begun=False)
    assert len(rig.hands.ordered) < 12
    assert "no room" in rig.gang.error


def test_ends_that_happened_meanwhile_count() -> None:
    rig = fixed()
    rig.end("worker-0")
    again = restored(rig, BEGUN)
    assert again.names == {"worker-1"}
    assert again.hands.ordered == []
    again.end("worker-1")
    assert len(again.kinds(Ended)) == 1


def test_budgets_go_on_counting() -> None:
    rig = fixed(failures=1)
    rig.end("worker-0", 3)
    again = restored(rig, BEGUN)
    again.end("worker-1", 3)
    assert again.gang.goal == "fail"


def test_live_tasks_are_waited_for_before_anything_is_decided() -> None:
    rig = live()
    again = restored(rig, BEGUN)
    assert again.hands.ordered == []
    again.run_all()
    for name in ("worker-0", "worker-1"):
        again.greet(name, generation=1)
        again.train(1, "worker-0", "worker-1")
    assert again.hands.ordered == []
    assert again.hands.signals == []
    assert not [message for _, message in again.hands.said if isinstance(message, Plan)]


def test_a_live_change_under_way_is_gone_on_with() -> None:
    rig = live()
    rig.decide(Kind.RESIZE, THREE)
    facts = rig.hands.facts
    begun = facts.index(next(f for f in facts if isinstance(f, Started))) + 1
    rig.hands.facts = [*facts[:begun], ResizeBegun(7, 2, THREE, 5.0), *facts[begun:]]
    again = restored(rig, BEGUN)
    again.run_all()
    for name in ("worker-0", "worker-1"):
        again.greet(name, generation=1)
        again.train(1, "worker-0", "worker-1")
    again.greet("worker-2")
    plan = again.hands.said[-1][1]
    assert isinstance(plan, Plan)
    again.train(plan.generation, "worker-0", "worker-1", "worker-2")
    assert len(again.kinds(Resized)) == 1


@pytest.mark.parametrize("kept", range(1, 6))
def test_nothing_is_ordered_twice_wherever_the_journal_ends(kept: int) -> None:
    rig = fixed(failures=5)
    rig.end("worker-0", 3)
    rig.end("worker-1", 3)
    rig.hands.facts = rig.hands.facts[:kept]
    before = {fact.task for fact in rig.hands.facts if isinstance(fact, TaskOrdered)}
    again = restored(rig, BEGUN)
    assert not before & {task.id for task in again.hands.ordered}
    gone = {f.exited.task for f in rig.hands.facts if isinstance(f, TaskEnded)}
    assert {task.id for task in again.gang.tasks.values()} >= before - gone
