"""How members are told to share their work otherwise, between two steps."""

from dataclasses import replace

from muster.roster.acts import Act, Begin, Sharing, Terms
from muster.roster.roster import Roster
from muster.wire.tasks.messages import Changed
from tests.unit.test_roster import come, names, plans, running

TWO = frozenset(("worker-0", "worker-1"))
OWNED = Sharing("sharded", {"worker-0": 0.75, "worker-1": 0.25}, {}, TWO)


def report(roster: Roster, acts: list[Act], way: str, shares: tuple[float, ...] = ()) -> list[Act]:
    """The members have done what they were told."""
    plan = next(iter(plans(acts).values()))
    told = Changed("worker-0", plan.formation, 9, tuple(names(plan)), 0.0, "plan", (), "", way, shares)
    return roster.heard(told)


def test_members_are_told_to_share_otherwise_and_stay() -> None:
    roster = running(2)
    acts = roster.share(OWNED)
    told = plans(acts)
    assert set(told) == TWO
    plan = told["worker-0"]
    assert (plan.sync, plan.shares, plan.after) == ("sharded", (0.75, 0.25), roster.formation)
    assert names(plan) == list(roster.members)
    assert not report(roster, acts, "sharded", (0.75, 0.25)), "once they do, nothing is left to tell"
    assert not roster.share(OWNED)


def test_members_that_share_so_already_are_not_disturbed() -> None:
    roster = Roster(Terms())
    acts = roster.resize(2)
    assert [act for act in acts if isinstance(act, Begin)]
    roster.share(replace(OWNED, sync="ring", owners={}))
    acts = come(roster, "worker-0", "worker-1")
    assert plans(acts)["worker-0"].sync == "ring", "the first plan has it"
    assert not report(roster, acts, "nccl")


def test_a_way_found_by_the_members_themselves_needs_no_plan() -> None:
    roster = Roster(Terms())
    roster.resize(2)
    acts = come(roster, "worker-0", "worker-1")
    report(roster, acts, "sharded", (0.74, 0.26))
    # The daemon hears of it before it decides: shares that differ by a per cent are alike.
    told = plans(roster.share(OWNED))
    assert not told or told["worker-0"].shares == (0.75, 0.25)


def test_samples_go_to_the_ranks_of_their_tasks() -> None:
    roster = running(2)
    plan = plans(roster.share(Sharing("ring", {}, {"worker-0": 3, "worker-1": 5}, TWO)))["worker-1"]
    assert plan.batch == tuple({"worker-0": 3, "worker-1": 5}[name] for name in names(plan))


def test_what_was_decided_for_other_tasks_is_not_followed() -> None:
    roster = running(2)
    assert not plans(roster.share(replace(OWNED, tasks=TWO | {"worker-2"})))
    acts = roster.resize(1)
    assert plans(acts)["worker-0"].shares == ()


def test_members_that_do_not_follow_are_left_alone_after_two_attempts() -> None:
    roster = running(2)
    first = plans(roster.share(OWNED))["worker-0"]
    again = plans(roster.check_plan(first.formation))["worker-0"]
    assert again.shares == first.shares
    assert not plans(roster.check_plan(again.formation))
