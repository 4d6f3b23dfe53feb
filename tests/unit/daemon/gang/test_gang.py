"""One job's tasks: what is ordered, journalled and reported, whatever happens to them."""

import signal

from muster.daemon.gang.ends import MAX_START_ATTEMPTS
from muster.daemon.gang.events import Exited, Heard
from muster.daemon.gang.setbacks import STEADY
from muster.daemon.gang.settle import UNHEARD
from muster.daemon.gang.transitions import Goal
from muster.model.event import (
    Cancelled,
    Checkpointed,
    Ended,
    NodeLost,
    Outcome,
    Preempted,
    Reshaped,
    Resized,
    Started,
    TasksLost,
)
from muster.model.job import Program
from muster.model.placement import Placement
from muster.model.task import (
    RuntimeSeen,
    TaskExited,
    TaskOrdered,
    TaskStarted,
)
from muster.model.view import Phase
from muster.wire.tasks.messages import Changed, Failed, MemberPlan, Stop
from muster.wire.tasks.messages import TrainingEnded as Left
from tests.builders import job, placement
from tests.unit.daemon.rig import KEY, SERVER, THREE, TWO, Rig, fixed, live, restored


def test_every_slot_gets_a_task_that_is_journalled_first() -> None:
    rig = Rig(job("j", 2))
    assert [task.slot for task in rig.done.ordered] == list(TWO.slots)
    assert [type(fact) for fact in rig.done.facts] == [TaskOrdered, TaskOrdered]
    assert not rig.kinds(Started)
    rig.run_all()
    assert rig.kinds(Started) == [Started(KEY, 1, 2.0)]


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
    assert rig.done.signals == [("server-0", signal.SIGTERM)]
    rig.end("server-0", None, signal.SIGTERM)
    assert [fact.outcome for fact in rig.kinds(Ended) if isinstance(fact, Ended)] == [Outcome.SUCCEEDED]


def test_the_gang_ends_as_a_whole_when_a_task_fails_for_good() -> None:
    rig = fixed()
    rig.end("worker-0", 3)
    assert rig.done.signals == [("worker-1", signal.SIGTERM)]
    assert not rig.kinds(Ended)
    rig.pass_time()
    assert rig.done.signals[-1] == ("worker-1", signal.SIGKILL)
    rig.end("worker-1", None, signal.SIGKILL)
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.FAILED
    assert rig.ended.exit_code == 3
    assert rig.ended.error == "worker-0 ended with exit code 3: the last line\nthe last line"


def test_a_gang_of_fixed_size_restarts_as_a_whole_while_the_budget_lasts() -> None:
    rig = fixed(failures=1)
    rig.end("worker-0", 3)
    assert rig.done.signals == [("worker-1", signal.SIGTERM)]
    rig.end("worker-1", None, signal.SIGTERM)
    assert rig.gang.failures == 1
    assert not rig.names, "it waits a second first"
    rig.pass_time()
    assert rig.names == {"worker-0", "worker-1"}
    ids = [task.task for task in rig.done.ordered]
    assert len(set(ids)) == len(ids) == 4
    rig.end("worker-0", 3)
    rig.end("worker-1", None, signal.SIGTERM)
    assert rig.ended.outcome is Outcome.FAILED


def test_who_is_killed_from_outside_is_no_failure_of_the_job() -> None:
    rig = fixed(failures=0, losses=2)
    for _ in range(2):
        rig.end("worker-1", None, signal.SIGKILL)
        rig.end("worker-0", None, signal.SIGTERM)
        rig.pass_time()
    assert (rig.gang.failures, rig.gang.losses) == (0, 2)
    assert rig.names == {"worker-0", "worker-1"}
    rig.end("worker-1", None, signal.SIGKILL)
    rig.end("worker-0", None, signal.SIGTERM)
    assert rig.ended.error.startswith("gave up after 3 losses in a row: worker-1 ended with signal 9")


def test_peers_of_a_killed_rank_that_die_of_it_are_neither_blamed_nor_counted() -> None:
    rig = fixed(failures=0)
    rig.end("worker-1", None, signal.SIGKILL)
    rig.end("worker-0", 1)
    assert (rig.gang.failures, rig.gang.losses) == (0, 1)
    rig.pass_time()
    assert rig.names == {"worker-0", "worker-1"}
    assert not rig.kinds(Ended)


def test_the_rank_that_was_killed_is_the_cause_though_its_end_is_reported_last() -> None:
    rig = fixed(failures=0)
    rig.end("worker-0", 1)
    assert rig.done.signals == [("worker-1", signal.SIGTERM)]
    rig.end("worker-1", None, signal.SIGKILL)
    assert (rig.gang.failures, rig.gang.losses) == (0, 1)
    assert "worker-1 ended with signal 9" in rig.gang.error


def test_of_ranks_that_fail_the_first_to_die_is_the_cause() -> None:
    rig = Rig(job("j", 3), THREE)
    rig.run_all()
    (one, two, three) = (task.task for task in rig.gang.tasks)
    rig.react(Exited(TaskExited(two, 1.7, 1), "ConnectionResetError: peer"))
    rig.react(Exited(TaskExited(one, 1.5, 1), "ValueError: the cause"))
    rig.react(Exited(TaskExited(three, 9.0, None, signal.SIGTERM)))
    assert rig.ended.error.startswith("worker-0 ended with exit code 1: ValueError: the cause")


def test_a_rank_that_ends_well_while_others_run_breaks_nothing() -> None:
    rig = fixed()
    rig.end("worker-0")
    assert rig.done.signals == []
    assert rig.gang.goal is Goal.RUN


def test_a_job_that_kills_itself_waits_longer_each_time_gives_its_devices_back_and_fails() -> None:
    rig = Rig(job("j", 1), placement(("n0", 1)))
    delays, queued = [], 0
    while KEY in rig.gangs:
        rig.run_all()
        rig.end("worker-0", None, signal.SIGKILL)
        if KEY not in rig.gangs:
            break
        delays.append(rig.gang.setbacks.delay)
        if rig.state.phase is Phase.WAITING:
            queued += 1
            assert rig.state.not_before == rig.gang.setbacks.until
            assert not rig.state.held()
            rig.passed += delays[-1]
            rig.generation = rig.state.generation
            rig.start(placement(("n0", 1)))
        else:
            rig.pass_time()
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert queued == 5
    assert rig.ended.error.startswith("gave up after 11 losses in a row: worker-0 ended with signal 9")


def test_a_loss_after_steady_running_counts_as_the_first() -> None:
    rig = Rig(job("j", 1), placement(("n0", 1)))
    for _ in range(3):
        rig.run_all()
        rig.end("worker-0", None, signal.SIGKILL)
        rig.pass_time()
    assert rig.gang.setbacks.count == 3
    rig.passed += STEADY
    rig.end("worker-0", None, signal.SIGKILL)
    assert (rig.gang.setbacks.count, rig.gang.setbacks.losses, rig.gang.losses) == (1, 1, 4)


def test_a_checkpoint_starts_the_count_of_losses_anew() -> None:
    rig = Rig(job("j", 1), placement(("n0", 1)))
    rig.run_all()
    rig.end("worker-0", None, signal.SIGKILL)
    rig.pass_time()
    rig.fold(Checkpointed(KEY, rig.state.generation, 9.0))
    rig.end("worker-0", None, signal.SIGKILL)
    assert rig.gang.setbacks.count == 1


def test_a_delay_goes_on_after_a_restart_of_the_daemon() -> None:
    rig = fixed()
    for _ in range(5):
        rig.pass_time()
        rig.end("worker-0", None, signal.SIGKILL)
        rig.end("worker-1", None, signal.SIGTERM)
    again = restored(rig)
    assert again.done.ordered == []
    again.pass_time()
    assert again.names == {"worker-0", "worker-1"}


def test_preemptions_are_no_losses() -> None:
    rig = fixed()
    rig.preempt()
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGKILL)
    assert (rig.gang.losses, rig.gang.setbacks.count) == (0, 0)


def test_workers_of_a_live_job_that_die_together_are_one_setback() -> None:
    rig = live()
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGKILL)
    assert (rig.gang.losses, rig.gang.setbacks.count) == (2, 1)


def test_a_segmentation_fault_is_the_jobs_own() -> None:
    rig = fixed()
    rig.end("worker-1", None, signal.SIGSEGV)
    rig.end("worker-0", 1)
    assert "SIGSEGV" in rig.ended.error


def test_a_command_that_is_not_there_fails_the_job() -> None:
    rig = Rig(job("j", 2))
    rig.end("worker-0", 127, error="no such command: pythn", begun=False)
    rig.end("worker-1", None, signal.SIGTERM)
    assert [type(fact) for fact in rig.kinds(Ended)] == [Ended]
    assert "no such command" in rig.ended.error


def test_preemption_asks_for_a_checkpoint_then_ends_then_kills() -> None:
    rig = fixed(checkpoint_signal="SIGUSR1")
    rig.preempt()
    sent = [number for name, number in rig.done.signals if name == "worker-0"]
    assert sent == [signal.SIGUSR1]
    rig.pass_time()
    rig.pass_time()
    sent = [number for name, number in rig.done.signals if name == "worker-0"]
    assert sent == [signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL]
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGKILL)
    assert [type(fact) for fact in rig.kinds(Preempted, Ended)] == [Preempted]


def test_a_job_that_ends_before_it_is_told_to_has_ended() -> None:
    rig = fixed(checkpoint_signal="SIGUSR1")
    rig.preempt()
    rig.end("worker-0")
    rig.end("worker-1")
    assert [type(fact) for fact in rig.kinds(Preempted, Ended)] == [Ended]


def test_a_preempted_job_starts_again_with_new_tasks() -> None:
    rig = fixed()
    rig.preempt()
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGTERM)
    rig.start(THREE)
    rig.run_all()
    assert len(rig.names) == 3
    assert [fact.generation for fact in rig.kinds(Started) if isinstance(fact, Started)] == [1, 2]
    ids = [task.task for task in rig.done.ordered]
    assert len(set(ids)) == len(ids)


def test_a_job_without_the_runtime_is_stopped_and_started_to_change() -> None:
    rig = Rig(job("j", 2, most=3, restarts=True))
    rig.run_all()
    rig.resize(THREE)
    assert len(rig.done.ordered) == 2
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGTERM)
    assert len(rig.names) == 3
    rig.run_all()
    assert [type(fact) for fact in rig.kinds(Started, Resized, Preempted)] == [Started, Resized]


def test_cancel_is_told_when_all_are_gone_and_once() -> None:
    rig = fixed()
    rig.cancel()
    rig.cancel()
    rig.end("worker-0", None, signal.SIGTERM)
    assert not rig.kinds(Cancelled)
    rig.end("worker-1", None, signal.SIGTERM)
    rig.pass_time()
    assert len(rig.kinds(Cancelled)) == 1


def test_a_late_word_about_a_task_of_before_is_ignored() -> None:
    rig = fixed()
    old = rig.gang.tasks[0].task
    rig.end("worker-0", None, signal.SIGKILL)
    before = len(rig.done.facts)
    rig.react(Exited(TaskExited(old, 9.0, 1)))
    rig.react(TaskStarted(old, 9.0))
    assert len(rig.done.facts) == before


# --- jobs of the runtime ---


def test_a_job_that_can_be_resized_has_started_when_it_trains() -> None:
    rig = Rig(job("j", 1, most=4))
    rig.run_all()
    assert not rig.kinds(Started)
    for name in ("worker-0", "worker-1"):
        rig.greet(name)
    assert [type(message) for _, message in rig.done.said] == [MemberPlan, MemberPlan]
    assert not rig.kinds(Started)
    rig.train(1, "worker-0", "worker-1")
    assert len(rig.kinds(Started)) == 1
    assert len(rig.kinds(RuntimeSeen)) == 1


def test_one_that_never_speaks_is_of_fixed_size() -> None:
    rig = Rig(job("j", 1, most=4))
    rig.run_all()
    assert [timer.seconds for timer in rig.done.timers] == [UNHEARD]
    rig.pass_time()
    (reshaped,) = rig.kinds(Reshaped)
    assert isinstance(reshaped, Reshaped)
    assert [(spec.gang, spec.most) for spec in reshaped.roles] == [(2, 2)]
    assert len(rig.kinds(Started)) == 1


def test_live_growth_starts_joiners_and_leaves_the_others_alone() -> None:
    rig = live()
    rig.resize(THREE)
    assert rig.done.ordered[-1].slot == THREE.slots[2]
    assert rig.done.signals == []
    rig.greet("worker-2")
    assert not rig.kinds(Resized)
    rig.train(2, "worker-0", "worker-1", "worker-2")
    assert [fact.generation for fact in rig.kinds(Resized) if isinstance(fact, Resized)] == [2]


def test_live_shrinking_gives_up_the_slot_that_was_decided() -> None:
    rig = live()
    keeps = Placement(TWO.slots[1:])
    rig.resize(keeps)
    plan = rig.done.said[-1][1]
    assert isinstance(plan, MemberPlan)
    assert [member.task for member in plan.members] == ["worker-1"]
    rig.train(plan.formation, "worker-1")
    assert not rig.kinds(Resized)
    rig.end("worker-0")
    assert len(rig.kinds(Resized)) == 1
    assert rig.done.signals == []


def test_live_migration_brings_the_new_before_the_old_goes() -> None:
    rig = live()
    moved = placement(("n1", 1), ("n1", 2))
    rig.migrate(moved)
    assert rig.names == {"worker-0", "worker-1", "worker-2", "worker-3"}
    for name in ("worker-2", "worker-3"):
        rig.greet(name)
    everybody = rig.done.said[-1][1]
    assert isinstance(everybody, MemberPlan)
    rig.train(everybody.formation, *(member.task for member in everybody.members))
    rig.step(everybody.formation, *sorted(rig.names))
    plan = rig.done.said[-1][1]
    assert isinstance(plan, MemberPlan)
    assert {member.task for member in plan.members} == {"worker-2", "worker-3"}


def test_a_killed_worker_is_replaced_in_its_place() -> None:
    rig = live()
    rig.end("worker-1", None, signal.SIGKILL)
    rig.react(Heard(Changed("worker-0", 2, 6, ("worker-0",), 0.1, "failure", ("worker-1",))))
    assert rig.done.ordered[-1].slot == TWO.slots[1]
    assert rig.names == {"worker-0", "worker-2"}
    assert not rig.kinds(Ended, TasksLost)


def test_a_worker_whose_death_the_others_tell_of_first_is_replaced_as_well() -> None:
    rig = live()
    rig.react(Heard(Changed("worker-0", 2, 6, ("worker-0",), 0.1, "failure", ("worker-1",))))
    assert rig.names == {"worker-0", "worker-1"}, "its slot is held until its process is gone"
    rig.end("worker-1", None, signal.SIGKILL)
    assert rig.done.ordered[-1].slot == TWO.slots[1]
    assert rig.names == {"worker-0", "worker-2"}
    assert not rig.kinds(Ended, TasksLost)


def test_joiners_that_die_again_and_again_are_given_up() -> None:
    rig = live()
    rig.resize(THREE)
    for turn in range(MAX_START_ATTEMPTS + 1):
        rig.end(f"worker-{turn + 2}", None, signal.SIGKILL)
        rig.pass_time()
    assert rig.names == {"worker-0", "worker-1"}
    assert [type(fact) for fact in rig.kinds(Resized, TasksLost)] == [Resized, TasksLost]


def test_a_live_job_is_stopped_by_a_word_and_leaves_with_a_checkpoint() -> None:
    rig = live()
    rig.preempt()
    told = dict(rig.done.said[-2:])
    assert all(isinstance(each, Stop) and each.leave for each in told.values())
    assert rig.done.signals == []
    for name in ("worker-0", "worker-1"):
        rig.react(Heard(Left(name, 1, 9, "stopped")))
        rig.end(name)
    assert [type(fact) for fact in rig.kinds(Preempted, Ended)] == [Preempted]


def test_a_training_that_finishes_while_it_is_stopped_has_finished() -> None:
    rig = live()
    rig.preempt()
    for name in ("worker-0", "worker-1"):
        rig.react(Heard(Left(name, 1, 9, "finished")))
        rig.end(name)
    assert [type(fact) for fact in rig.kinds(Preempted, Ended)] == [Ended]


def test_a_live_job_finishes_when_its_processes_have_ended() -> None:
    rig = live()
    for name in ("worker-0", "worker-1"):
        rig.react(Heard(Left(name, 1, 9, "finished")))
    assert not rig.kinds(Ended)
    rig.end("worker-1")
    assert rig.done.signals == []
    rig.end("worker-0")
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.SUCCEEDED


def test_an_error_after_the_training_fails_the_job() -> None:
    rig = live()
    for name in ("worker-0", "worker-1"):
        rig.react(Heard(Left(name, 1, 9, "finished")))
    rig.end("worker-1")
    rig.end("worker-0", 1)
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.FAILED


def test_a_script_that_does_not_end_after_its_training_fails_the_job() -> None:
    rig = live()
    for name in ("worker-0", "worker-1"):
        rig.react(Heard(Left(name, 1, 9, "finished")))
    rig.end("worker-1")
    assert rig.done.signals == []
    rig.pass_time()
    assert rig.done.signals == [("worker-0", signal.SIGTERM)]
    rig.end("worker-0", None, signal.SIGTERM)
    assert rig.ended.outcome is Outcome.FAILED
    assert rig.ended.error == "worker-0 still ran 10m after the training (finish_grace)"


def test_newcomers_that_fail_leave_the_job_at_its_size() -> None:
    rig = live()
    rig.resize(THREE)
    for number in (2, 3, 4):
        name = f"worker-{number}"
        rig.greet(name)
        rig.react(Heard(Failed(name, "KeyError: 'x'", "Traceback", joining=True)))
        rig.end(name, 1)
    assert not rig.kinds(Ended)
    assert rig.names == {"worker-0", "worker-1"}
    assert rig.gang.failures == 0
    (reshaped,) = rig.kinds(Reshaped)
    assert isinstance(reshaped, Reshaped)
    assert [(spec.least, spec.most) for spec in reshaped.roles] == [(1, 2)]
    assert reshaped.why == "3 workers in a row failed before their first step: worker-4: KeyError: 'x'"


def test_an_error_in_the_users_code_ends_a_live_job() -> None:
    rig = live()
    rig.react(Heard(Failed("worker-0", "ValueError: no", "Traceback: ValueError: no")))
    rig.end("worker-0", 1)
    rig.end("worker-1", None, signal.SIGTERM)
    (ended,) = rig.kinds(Ended)
    assert isinstance(ended, Ended)
    assert ended.outcome is Outcome.FAILED
    assert rig.ended.error == "worker-0: ValueError: no\nTraceback: ValueError: no"


# --- names ---


def test_a_replacement_has_one_name_of_its_own() -> None:
    rig = live()
    rig.end("worker-1", None, signal.SIGKILL)
    rig.react(Heard(Changed("worker-0", 2, 6, ("worker-0",), 0.1, "failure", ("worker-1",))))
    ordered = rig.done.ordered[-1]
    assert (ordered.task.name, ordered.slot.index) == ("worker-2", 1)


def test_ranks_of_other_programs_keep_their_names_over_restarts() -> None:
    rig = fixed()
    rig.preempt()
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGTERM)
    rig.start()
    assert rig.names == {"worker-0", "worker-1"}


# --- nodes ---


def test_a_lost_node_ends_the_run_and_the_next_start_waits_for_what_is_left() -> None:
    rig = Rig(job("j", 3), THREE)
    rig.run_all()
    rig.happen(NodeLost("n1", 5.0))
    assert {number for _, number in rig.done.signals} == {signal.SIGKILL}
    assert rig.state.phase is Phase.WAITING
    rig.generation = rig.state.generation
    rig.start(placement(("n0", 1), ("n0", 2), ("n0", 4)))
    ordered = len(rig.done.ordered)
    rig.end("worker-0", None, signal.SIGKILL)
    assert len(rig.done.ordered) == ordered
    rig.end("worker-1", None, signal.SIGKILL)
    assert len(rig.done.ordered) == ordered + 3


def test_a_job_that_is_being_cancelled_is_cancelled_though_its_node_is_lost() -> None:
    rig = Rig(job("j", 3), THREE)
    rig.run_all()
    rig.cancel()
    rig.happen(NodeLost("n1", 5.0))
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGKILL)
    assert len(rig.kinds(Cancelled)) == 1


def test_a_live_job_that_grows_goes_on_when_the_node_it_grows_to_is_lost() -> None:
    rig = live()
    rig.resize(THREE)
    (joiner,) = rig.names - {"worker-0", "worker-1"}
    rig.happen(NodeLost("n1", 5.0))
    assert rig.names == {"worker-0", "worker-1"}
    assert rig.state.phase is Phase.RUNNING
    assert rig.state.placement == TWO
    assert not rig.done.signals, f"nobody is stopped for {joiner}"


def test_a_live_job_that_moves_goes_on_with_who_has_joined_when_the_old_node_is_lost() -> None:
    rig = live()
    rig.migrate(placement(("n1", 1), ("n1", 2)))
    joiners = sorted(rig.names - {"worker-0", "worker-1"})
    for name in joiners:
        rig.greet(name)
    rig.train(2, "worker-0", "worker-1", *joiners)
    rig.step(2, *joiners)
    rig.happen(NodeLost("n0", 5.0))
    assert rig.names == set(joiners)
    assert not rig.done.signals
    lost = ("worker-0", "worker-1")
    rig.react(Heard(Changed(joiners[0], 4, 6, tuple(joiners), 0.1, "failure", lost)))
    assert rig.state.phase is Phase.RUNNING
    assert rig.state.placement is not None
    assert rig.state.placement.nodes() == {"n1"}
    assert rig.names == set(joiners), "nobody is started beside them"


def test_a_job_without_the_runtime_restarts_on_what_a_lost_node_leaves_it() -> None:
    rig = Rig(job("j", 1, most=3, restarts=True), THREE)
    rig.run_all()
    rig.happen(NodeLost("n1", 5.0))
    assert rig.state.phase is Phase.RUNNING
    ordered = len(rig.done.ordered)
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGTERM)
    rig.pass_time()
    assert [each.slot for each in rig.done.ordered[ordered:]] == list(TWO.slots)
    assert (rig.gang.losses, rig.gang.failures) == (1, 0)


def test_a_job_that_runs_at_most_once_waits_for_the_end_of_tasks_on_a_lost_node() -> None:
    rig = Rig(job("j", 3, program=Program(at_most_once=True)), THREE)
    rig.run_all()
    rig.happen(NodeLost("n1", 5.0))
    for name in ("worker-0", "worker-1"):
        rig.end(name, None, signal.SIGKILL)
    rig.generation = rig.state.generation
    ordered = len(rig.done.ordered)
    rig.start(placement(("n0", 1), ("n0", 2), ("n0", 4)))
    assert len(rig.done.ordered) == ordered, "it may still run on n1"
    rig.end("worker-2", None, error="node n1 is lost")
    assert len(rig.done.ordered) == ordered + 3
