"""What the roster decides, event by event."""

from muster.roster.acts import Act, Begin, Check, Finish, Kill, Tell, Terms, Wake
from muster.roster.roster import Roster
from muster.wire.tasks.messages import (
    Changed,
    Failed,
    Hello,
    MemberPlan,
    MembersLost,
    Ready,
    StepDone,
    Stop,
    TaskBusy,
    TrainingEnded,
)


def hello(task: str, formation: int = 0, ready: bool = False) -> Hello:
    role, _, number = task.rpartition("-")
    return Hello("j", task, role, f"127.0.0.1:{1000 + int(number)}", 7, formation, ready)


def changed(formation: int, *members: str, lost: tuple[str, ...] = ()) -> Changed:
    return Changed(members[0], formation, 5, members, 0.1, "failure" if lost else "plan", lost)


def stepped(task: str, formation: int, holds: bool = True) -> StepDone:
    return StepDone(task, formation, 7, 0, 4, 1.0, 0.1, 0.1, 0.0, 0.0, holds=holds)


def plans(acts: list[Act]) -> dict[str, MemberPlan]:
    return {
        act.task: act.message
        for act in acts
        if isinstance(act, Tell) and isinstance(act.message, MemberPlan)
    }


def after_end(roster: Roster, task: str, how: str) -> list[Act]:
    """What the roster does about a task that has ended, beside telling the others."""
    return [
        act
        for act in roster.exited(task, how)
        if not (isinstance(act, Tell) and isinstance(act.message, MembersLost))
    ]


def names(plan: MemberPlan) -> list[str]:
    return [member.task for member in plan.members]


def come(roster: Roster, *tasks: str) -> list[Act]:
    """The tasks connect and are ready."""
    acts: list[Act] = []
    for task in tasks:
        acts += roster.hello(hello(task))
        acts += roster.heard(Ready(task))
    return acts


def running(workers: int, servers: int = 0, terms: Terms | None = None) -> Roster:
    """A job in its first formation."""
    roster = Roster(terms or Terms())
    begun = [act.task for act in roster.resize(workers, servers) if isinstance(act, Begin)]
    (plan,) = {plan.formation: plan for plan in plans(come(roster, *begun)).values()}.values()
    roster.heard(changed(plan.formation, *names(plan)))
    for name in begun:
        if name.startswith("worker"):
            roster.heard(stepped(name, plan.formation))
    return roster


def test_starts_what_is_asked_for_and_waits_for_all() -> None:
    roster = Roster(Terms(deadline=7.0, sync="sharded", owners="update"))
    assert roster.resize(2, 1) == [
        Begin("worker-0", "worker"),
        Begin("worker-1", "worker"),
        Begin("server-0", "server"),
    ]
    assert come(roster, "worker-0", "server-0") == []
    assert roster.hello(hello("worker-1")) == []
    told = plans(roster.heard(Ready("worker-1")))
    assert set(told) == {"worker-0", "worker-1", "server-0"}
    plan = told["worker-0"]
    assert names(plan) == ["worker-0", "worker-1", "server-0"]
    assert (plan.formation, plan.after) == (1, 0)
    assert (plan.deadline, plan.sync, plan.owners) == (7.0, "sharded", "update")
    assert plan.members[1].address == "127.0.0.1:1001"


def test_joiners_are_named_when_all_are_ready() -> None:
    roster = running(1)
    assert roster.resize(3) == [Begin("worker-1", "worker"), Begin("worker-2", "worker")]
    assert come(roster, "worker-2") == []
    told = plans(come(roster, "worker-1"))
    assert set(told) == {"worker-0", "worker-1", "worker-2"}
    assert names(told["worker-0"]) == ["worker-0", "worker-1", "worker-2"]
    assert (told["worker-0"].formation, told["worker-0"].after) == (2, 1)


def test_the_newest_leave_and_are_told() -> None:
    roster = running(3)
    told = plans(roster.resize(1))
    assert set(told) == {"worker-0", "worker-1", "worker-2"}
    assert names(told["worker-2"]) == ["worker-0"]
    assert roster.heard(changed(2, "worker-0")) == []
    assert after_end(roster, "worker-2", "exit code 0") == []
    assert roster.lost == {}
    # Names are not used twice.
    assert roster.resize(2) == [Begin("worker-3", "worker")]


def test_a_plan_overtaken_by_a_failure_is_made_anew() -> None:
    roster = running(3)
    roster.resize(4)
    assert names(plans(come(roster, "worker-3"))["worker-0"]) == [f"worker-{n}" for n in range(4)]
    roster.exited("worker-1", "signal 9")
    # The members call their new formation 2 by themselves; the plan, 2 as well, is void.
    told = plans(roster.heard(changed(2, "worker-0", "worker-2", lost=("worker-1",))))
    assert names(told["worker-3"]) == ["worker-0", "worker-2", "worker-3"]
    assert (told["worker-3"].formation, told["worker-3"].after) == (3, 2)
    assert roster.lost == {"worker-1": "signal 9"}


def test_the_others_are_told_of_a_death_and_nothing_is_planned_before_they_have_met() -> None:
    roster = running(2)
    told = Tell("worker-0", MembersLost(("worker-1",)))
    assert roster.exited("worker-1", "signal 9") == [told]
    assert roster.hello(hello("worker-0", formation=1)) == [told], "it may not have heard"
    assert [act for act in roster.resize(3) if isinstance(act, Tell)] == []
    assert roster.heard(changed(2, "worker-0", lost=("worker-1",))) == [
        Begin("worker-2", "worker"),
        Begin("worker-3", "worker"),
    ]


def test_a_member_that_hangs_is_killed_once_the_others_have_left_it() -> None:
    roster = running(2)
    assert roster.heard(changed(2, "worker-0", lost=("worker-1",))) == [Kill("worker-1")]
    assert roster.lost == {"worker-1": "no answer"}
    assert roster.exited("worker-1", "signal 9") == []
    assert roster.lost == {"worker-1": "signal 9"}
    assert roster.hello(hello("worker-0", formation=2)) == []


def test_replacement_on_request() -> None:
    roster = running(2, terms=Terms(replace=True))
    roster.exited("worker-1", "signal 9")
    acts = roster.heard(changed(2, "worker-0", lost=("worker-1",)))
    assert acts == [Begin("worker-2", "worker")]
    # A replacement that does not even come up is not tried for ever.
    assert after_end(roster, "worker-2", "exit code 1") == []


def test_a_joiner_that_dies_is_taken_out_of_the_plan() -> None:
    roster = running(1)
    roster.resize(3)
    come(roster, "worker-1", "worker-2")
    told = plans(roster.exited("worker-2", "signal 9"))
    assert names(told["worker-0"]) == ["worker-0", "worker-1"]
    # Higher than the plan that named the dead one, and after the same formation.
    assert (told["worker-0"].formation, told["worker-0"].after) == (3, 1)


def test_a_plan_that_nobody_takes_up_is_made_anew_and_then_without_its_joiners() -> None:
    roster = running(2, terms=Terms(deadline=2.0))
    roster.resize(3)
    acts = come(roster, "worker-2")
    # Three deadlines of 2 s each.
    assert acts[-1] == Check(6.0, 2)
    again = roster.check_plan(2)
    assert names(plans(again)["worker-2"]) == ["worker-0", "worker-1", "worker-2"]
    assert again[-1] == Check(6.0, 3)
    assert roster.check_plan(2) == []  # of the plan before
    assert roster.check_plan(3) == [Kill("worker-2")]
    assert roster.lost == {"worker-2": "no answer"}
    assert roster.members == ("worker-0", "worker-1")


def test_who_is_lost_in_the_change_itself_is_lost() -> None:
    roster = running(2)
    roster.resize(3)
    come(roster, "worker-2")
    # The plan had worker-1 in it; those who entered report without it, and without a word of failure.
    assert roster.heard(changed(3, "worker-0", "worker-2")) == [Kill("worker-1")]
    assert roster.lost == {"worker-1": "no answer"}


def test_a_joiner_not_needed_any_more_is_sent_home() -> None:
    roster = running(1)
    roster.resize(2)
    assert roster.resize(1) == [Kill("worker-1")]
    # Ordered, and not even born when it was dismissed: it shows up all the same.
    assert roster.hello(hello("worker-1")) == [Kill("worker-1")]
    assert after_end(roster, "worker-1", "exit code 0") == []
    assert roster.lost == {}


def test_a_resize_during_a_plan_waits_for_it() -> None:
    roster = running(1)
    roster.resize(2)
    come(roster, "worker-1")
    assert roster.resize(1) == []
    told = plans(roster.heard(changed(2, "worker-0", "worker-1")))
    assert names(told["worker-1"]) == ["worker-0"]


def test_who_reconnects_is_told_the_plan_again() -> None:
    roster = running(1)
    roster.resize(2)
    come(roster, "worker-1")
    assert names(plans(roster.hello(hello("worker-0", formation=1)))["worker-0"]) == [
        "worker-0",
        "worker-1",
    ]


def test_the_users_error_ends_the_job_at_once() -> None:
    roster = running(2)
    assert roster.heard(Failed("worker-1", "ValueError: a mean")) == [
        Finish("worker-1: ValueError: a mean")
    ]
    assert after_end(roster, "worker-1", "exit code 1") == []


def fail_newcomer(roster: Roster, name: str) -> list[Act]:
    """One that has not done a step fails."""
    assert come(roster, name)
    assert roster.heard(Failed(name, "KeyError: 'x'", joining=True)) == []
    return after_end(roster, name, "exit code 1")


def test_newcomers_that_fail_are_replaced_and_then_no_more_are_started() -> None:
    roster = running(1)
    assert roster.resize(2) == [Begin("worker-1", "worker")]
    assert fail_newcomer(roster, "worker-1") == [Begin("worker-2", "worker")]
    assert roster.refusal == ""
    assert fail_newcomer(roster, "worker-2") == [Begin("worker-3", "worker")]
    assert fail_newcomer(roster, "worker-3") == []
    assert roster.refusal == (
        "3 workers in a row failed before their first step: worker-3: KeyError: 'x'"
    )
    assert roster.lost == {f"worker-{n}": "KeyError: 'x'" for n in (1, 2, 3)}
    assert roster.over is None


def test_a_newcomers_error_ends_the_job_if_nobody_trains_without_it() -> None:
    roster = Roster()
    roster.resize(2, 0)
    come(roster, "worker-0", "worker-1")
    assert Finish("worker-1: KeyError: 'x'") in roster.heard(
        Failed("worker-1", "KeyError: 'x'", joining=True)
    )


def test_a_step_of_its_own_ends_a_row_of_failures() -> None:
    roster = running(1)
    roster.resize(2)
    fail_newcomer(roster, "worker-1")
    fail_newcomer(roster, "worker-2")
    come(roster, "worker-3")
    roster.heard(changed(roster._highest, "worker-0", "worker-3"))
    roster.heard(stepped("worker-3", roster.formation))
    roster.resize(3)
    assert Begin("worker-5", "worker") in fail_newcomer(roster, "worker-4")


def test_a_plan_waits_for_a_busy_member() -> None:
    roster = running(1)
    roster.resize(2)
    plan = plans(come(roster, "worker-1"))["worker-0"]
    roster.heard(TaskBusy("worker-0", True))
    for _ in range(3):
        assert roster.check_plan(plan.formation) == [Check(90.0, plan.formation)]
    roster.heard(TaskBusy("worker-0", False))
    assert plans(roster.check_plan(plan.formation)), "made again"


def test_finished_when_all_workers_have_ended() -> None:
    roster = running(2, servers=1)
    assert roster.heard(TrainingEnded("worker-0", 1, 9, "finished")) == []
    assert after_end(roster, "worker-0", "exit code 0") == []
    assert roster.heard(TrainingEnded("worker-1", 1, 9, "finished")) == [Finish()]


def test_a_death_after_the_finish_changes_nothing() -> None:
    roster = running(2)
    roster.heard(TrainingEnded("worker-0", 1, 9, "finished"))
    assert after_end(roster, "worker-1", "signal 9") == [Finish()]


def test_all_gone_begins_again_from_the_checkpoint() -> None:
    roster = running(2, servers=1, terms=Terms(restarts=1))
    roster.exited("worker-0", "signal 9")
    acts = after_end(roster, "worker-1", "signal 9")
    # The server knows a formation that is no more: it goes as well.
    assert acts == [
        Kill("server-0"),
        Begin("worker-2", "worker"),
        Begin("worker-3", "worker"),
        Begin("server-1", "server"),
    ]
    told = plans(come(roster, "worker-2", "worker-3", "server-1"))
    # After nothing: nobody takes over from anybody; yet no formation is used twice.
    assert (told["worker-2"].formation, told["worker-2"].after) == (2, 0)
    roster.heard(changed(2, "worker-2", "worker-3", "server-1"))
    assert after_end(roster, "server-0", "signal 9") == []
    roster.exited("worker-2", "signal 9")
    (end,) = after_end(roster, "worker-3", "exit code 3")
    assert isinstance(end, Finish)
    assert "worker-2 (signal 9), worker-3 (exit code 3)" in end.error


def test_the_last_member_dies_while_a_joiner_may_just_have_joined() -> None:
    roster = running(1, terms=Terms(deadline=4.0, restarts=0))
    roster.resize(2)
    come(roster, "worker-1")
    assert after_end(roster, "worker-0", "signal 9") == [Wake(4.0, 1)]
    # It had joined: it goes on alone.
    assert roster.heard(changed(2, "worker-0", "worker-1")) == []
    assert roster.heard(changed(3, "worker-1", lost=("worker-0",))) == []
    assert roster.woken(1) == []
    assert roster.over is None


def test_the_last_member_dies_and_the_joiner_never_joined() -> None:
    roster = running(1, terms=Terms(restarts=1))
    roster.resize(2)
    come(roster, "worker-1")
    roster.exited("worker-0", "signal 9")
    assert roster.woken(1) == [Begin("worker-2", "worker")]
    told = plans(come(roster, "worker-2"))
    assert names(told["worker-1"]) == ["worker-1", "worker-2"]
    assert told["worker-1"].after == 0


def test_stop_tells_all_and_ends_when_they_have() -> None:
    roster = running(2)
    roster.resize(3)
    assert roster.stop("Ctrl-C") == [
        Tell("worker-0", Stop("Ctrl-C")),
        Tell("worker-1", Stop("Ctrl-C")),
        Kill("worker-2"),
    ]
    assert roster.heard(TrainingEnded("worker-0", 1, 9, "left")) == []
    assert roster.heard(TrainingEnded("worker-1", 1, 9, "left")) == [Finish("Ctrl-C")]


def test_a_new_coordinator_takes_over_who_lives() -> None:
    roster = Roster(used={"worker-0", "worker-1", "worker-2"}, expected={"worker-0", "worker-2"})
    assert roster.resize(2, 0) == []
    assert roster.hello(hello("worker-2", formation=4, ready=True)) == []
    assert roster.hello(hello("worker-0", formation=4, ready=True)) == []
    assert roster.heard(changed(4, "worker-0", "worker-2")) == []
    assert roster.resize(3) == [Begin("worker-3", "worker")]
    told = plans(come(roster, "worker-3"))
    assert (told["worker-0"].formation, told["worker-0"].after) == (5, 4)


def test_a_new_coordinator_hears_that_one_died_meanwhile() -> None:
    roster = Roster(used={"worker-0", "worker-1"}, expected={"worker-0", "worker-1"})
    roster.resize(2, 0)
    roster.hello(hello("worker-0", formation=1, ready=True))
    assert roster.heard(changed(1, "worker-0", "worker-1")) == []
    assert after_end(roster, "worker-1", "signal 9") == []
    assert roster.heard(changed(2, "worker-0", lost=("worker-1",))) == []
    assert roster.over is None
    assert roster.members == ("worker-0",)


def test_a_new_coordinator_does_not_count_old_losses_again() -> None:
    roster = Roster(used={"worker-0", "worker-1"}, expected={"worker-0"})
    roster.resize(1, 0)
    roster.hello(hello("worker-0", formation=2, ready=True))
    assert roster.heard(changed(2, "worker-0", lost=("worker-1",))) == []
    assert roster.target == {"worker": 1, "server": 0}
    assert roster.lost == {}


def test_a_new_coordinator_kills_who_hung_meanwhile() -> None:
    roster = Roster(used={"worker-0", "worker-1"}, expected={"worker-0", "worker-1"})
    roster.resize(2, 0)
    roster.hello(hello("worker-0", formation=2, ready=True))
    assert roster.heard(changed(2, "worker-0", lost=("worker-1",))) == [Kill("worker-1")]
    assert roster.expected == set()


def test_who_left_unheard_is_not_lost() -> None:
    roster = Roster(used={"worker-0", "worker-1"}, expected={"worker-0", "worker-1"})
    roster.resize(1, 0)
    roster.hello(hello("worker-0", formation=2, ready=True))
    assert after_end(roster, "worker-1", "exit code 0") == []
    assert roster.heard(changed(2, "worker-0")) == []
    assert roster.lost == {}
    assert roster.target == {"worker": 1, "server": 0}


def test_a_script_that_never_trains_is_started_once() -> None:
    roster = Roster()
    assert len(roster.resize(2, 0)) == 2
    assert after_end(roster, "worker-0", "exit code 0") == []
    assert after_end(roster, "worker-1", "exit code 0") == [Finish()]


def test_joiners_do_not_outlive_the_training() -> None:
    roster = running(1)
    roster.resize(2)
    assert roster.heard(TrainingEnded("worker-0", 1, 9, "finished")) == [Kill("worker-1"), Finish()]
    assert after_end(roster, "worker-1", "signal 9") == []
    assert roster.lost == {}


def test_old_news_changes_nothing() -> None:
    roster = running(2)
    roster.heard(changed(5, "worker-0", lost=("worker-1",)))
    assert roster.heard(changed(4, "worker-0", "worker-1")) == []
    assert roster.members == ("worker-0",)


def test_who_is_named_leaves_and_whoever_else_stays() -> None:
    roster = running(3)
    told = plans(roster.resize(2, leave=["worker-0"]))
    assert set(told) == {"worker-0", "worker-1", "worker-2"}
    assert names(told["worker-0"]) == ["worker-1", "worker-2"]
    assert roster.heard(changed(2, "worker-1", "worker-2")) == []
    assert after_end(roster, "worker-0", "exit code 0") == []
    assert roster.lost == {}


def test_a_move_is_one_plan() -> None:
    roster = running(2, servers=1)
    assert roster.resize(2, leave={"worker-0", "server-0"}) == [
        Begin("worker-2", "worker"),
        Begin("server-1", "server"),
    ]
    told = plans(come(roster, "worker-2", "server-1"))
    assert set(told) == {"worker-0", "worker-1", "worker-2", "server-0", "server-1"}
    assert names(told["worker-1"]) == ["worker-1", "worker-2", "server-1"]


def test_a_leaver_stays_until_another_has_the_state() -> None:
    """A plan of newcomers alone would begin the training from nothing."""
    roster = running(1)
    assert roster.resize(1, leave={"worker-0"}) == [Begin("worker-1", "worker")]
    told = plans(come(roster, "worker-1"))
    assert names(told["worker-1"]) == ["worker-1", "worker-0"]
    assert roster.heard(changed(2, "worker-1", "worker-0")) == []
    assert roster.heard(stepped("worker-0", 2)) == []
    assert roster.heard(stepped("worker-1", 2, holds=False)) == []
    told = plans(roster.heard(stepped("worker-1", 2)))
    assert set(told) == {"worker-0", "worker-1"}
    assert names(told["worker-0"]) == ["worker-1"]
    assert (told["worker-0"].formation, told["worker-0"].after) == (3, 2)
    assert roster.heard(changed(3, "worker-1")) == []


def test_a_new_coordinator_waits_to_hear_who_has_the_state() -> None:
    roster = Roster(used={"worker-0", "worker-1"}, expected={"worker-0", "worker-1"})
    assert roster.resize(1, 0, leave=["worker-0"]) == []
    roster.hello(hello("worker-0", formation=4, ready=True))
    roster.hello(hello("worker-1", formation=4, ready=True))
    assert roster.heard(changed(4, "worker-0", "worker-1")) == []
    assert names(plans(roster.heard(stepped("worker-1", 4)))["worker-0"]) == ["worker-1"]


def test_who_is_to_leave_and_is_no_member_yet_is_sent_home() -> None:
    roster = running(1)
    roster.resize(3)
    come(roster, "worker-1")
    assert roster.resize(2, leave=["worker-1", "worker-7"]) == [Kill("worker-1")]
    assert after_end(roster, "worker-1", "signal 9") == []
    told = plans(come(roster, "worker-2"))
    assert names(told["worker-0"]) == ["worker-0", "worker-2"]


def test_a_leaver_that_a_plan_has_named_joins_and_leaves_again() -> None:
    roster = running(1)
    roster.resize(2)
    come(roster, "worker-1")
    assert roster.resize(1, leave=["worker-1"]) == []
    told = plans(roster.heard(changed(2, "worker-0", "worker-1")))
    assert names(told["worker-1"]) == ["worker-0"]


def test_a_leaver_that_dies_is_not_replaced() -> None:
    roster = running(2, terms=Terms(replace=True))
    assert roster.resize(2, leave=["worker-0"]) == [Begin("worker-2", "worker")]
    assert after_end(roster, "worker-0", "signal 9") == []
    assert roster.heard(changed(2, "worker-1", lost=("worker-0",))) == []
    assert roster.target == {"worker": 2, "server": 0}
    told = plans(come(roster, "worker-2"))
    assert names(told["worker-1"]) == ["worker-1", "worker-2"]
    # One that is to stay is replaced all the same.
    roster.heard(changed(3, "worker-1", "worker-2"))
    roster.exited("worker-2", "signal 9")
    assert roster.heard(changed(4, "worker-1", lost=("worker-2",))) == [Begin("worker-3", "worker")]


def test_a_move_whose_joiner_never_comes_up_leaves_the_only_worker_in_place() -> None:
    roster = running(1)
    roster.resize(1, leave=["worker-0"])
    assert after_end(roster, "worker-1", "exit code 1") == []
    assert (roster.members, roster.over) == (("worker-0",), None)
    # Asked again, it is tried again: who was to leave still is.
    assert roster.resize(1) == [Begin("worker-2", "worker")]
