"""What would become of the live jobs if something were changed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.foresight.changing import Transition
from muster.foresight.past import Past, PastJob
from muster.foresight.play import Present
from muster.foresight.quantiles import TimeInterval
from muster.foresight.whatif.answer import Verdict, WhatIfAnswer
from muster.foresight.whatif.ask import WhatIfQuestion, what_if
from muster.foresight.whatif.changes import (
    Alteration,
    ChangeError,
    NodesAdded,
    NodesDrained,
    PolicyChange,
    PoolChange,
    PriorityChange,
    SubmissionChange,
    altered,
)
from muster.model.outlook import Outlook, Table
from muster.model.pool import Pool, PoolTree, Quota
from muster.policy.registry import POLICIES
from tests.builders import cluster, job, placement, running, view

NOTHING = TimeInterval(0.0, 0.0, 0.0)
NOW = 100.0


def _known(seconds: float, gang: int, spread: float = 0.0) -> Outlook:
    """A job that takes this long on its gang, whatever else it gets."""
    return Outlook(seconds, Table((0.0,) * (gang - 1) + (1.0,)), spread)


def _present(policy: str = "fifo", spread: float = 0.0, nodes: int = 1) -> Present:
    """Job 1 holds a node for 1000 s; 2 and 3 of 8 devices wait, for 800 and 100 s."""
    first = running(job("j1", 8, number=1), placement(*(("n0", 1 << bit) for bit in range(8))))
    waiting = [job("j2", 8, number=2), job("j3", 8, number=3)]
    seen = view(cluster(nodes), [first, *waiting], PoolTree({"default": Pool("default")}))
    lengths = {1: 1000.0, 2: 800.0, 3: 100.0}
    outlooks = {number: _known(seconds, 8, spread) for number, seconds in lengths.items()}
    return Present(replace(seen, outlooks=outlooks), NOW, POLICIES[policy])


def _at_once() -> Past:
    """Changes have taken no time so far."""
    past = Past()
    past.restore(None, [PastJob(job("old"), 0.0, changes=[(each, 0.0) for each in Transition])])
    return past


def _asked(present: Present, *changes: Alteration, worlds: int = 4) -> WhatIfAnswer:
    return what_if(present, _at_once(), WhatIfQuestion(changes, worlds))


def _finish(answer: WhatIfAnswer, number: int) -> float:
    (found,) = (each for each in answer.jobs if each.number == number)
    return found.after.finish.middle - answer.now


def test_another_policy_lets_short_jobs_pass() -> None:
    answer = _asked(_present(), PolicyChange("srtf"))
    verdicts = {each.number: each.verdict for each in answer.jobs}
    assert verdicts[3] is Verdict.EARLIER and verdicts[1] is Verdict.LATER
    assert answer.completion.change.middle < 0
    assert answer.jobs[2].start is not None and answer.jobs[2].start.high < -500


def test_added_nodes_start_who_waits() -> None:
    answer = _asked(_present(), NodesAdded(("n1", "n2"), "a"))
    starts = [each.after.start for each in answer.jobs if each.after.start]
    assert [each.middle for each in starts] == [NOW, NOW]
    assert answer.with_verdict(Verdict.LATER) == ()
    assert answer.makespan.change.middle < 0


def test_nodes_that_come_later_help_later() -> None:
    answer = _asked(_present(), NodesAdded(("n1",), "n0", at=NOW + 300))
    start = answer.jobs[1].after.start
    assert start is not None and 300 <= start.middle - NOW < 400


def test_a_drained_node_holds_up_who_waits_for_it() -> None:
    before = _present(nodes=2)
    answer = _asked(before, NodesDrained(("n1",), at=NOW + 10))
    # Job 2 is on n1 by then and ends there; job 3 waits for n0.
    assert {each.number: each.verdict for each in answer.jobs}[3] is Verdict.LATER


def test_a_job_that_never_ends_is_told_so_and_counts_in_no_mean() -> None:
    """Jobs 2 and 3 need more than what is left of the cluster once n0 is drained."""
    answer = _asked(_present(), NodesDrained(("n0",)))
    assert {each.number: each.verdict for each in answer.jobs} == {
        1: Verdict.SAME,
        2: Verdict.NEVER,
        3: Verdict.NEVER,
    }
    assert answer.completion.before.middle < 2000 and answer.completion.change == NOTHING
    assert answer.makespan.after.high < 2000
    assert all(0 <= each.change.high - each.change.low < 9 for each in answer.pools.values())


def test_a_job_that_is_held_never_ends_on_either_side() -> None:
    present = _present()
    held = replace(present.view.jobs[2], held_by="ada")
    jobs = {**present.view.jobs, 2: held}
    answer = _asked(replace(present, view=replace(present.view, jobs=jobs)), PriorityChange(3, 5))
    assert answer.jobs[1].finish == NOTHING and answer.jobs[1].verdict is Verdict.SAME
    assert answer.completion.after.high < 2000


def test_a_job_with_a_higher_priority_goes_first() -> None:
    answer = _asked(_present(), PriorityChange(3, 5))
    assert answer.jobs[2].verdict is Verdict.EARLIER
    assert answer.jobs[1].verdict is Verdict.LATER


def test_a_submission_tells_its_own_times_and_whom_it_holds_up() -> None:
    new = replace(job("new", 8), priority=9)
    answer = _asked(_present(), SubmissionChange(new, outlook=_known(50.0, 8)))
    told = {each.number: each for each in answer.jobs}
    assert told[4].verdict is Verdict.NEW and told[4].before is None
    assert told[4].after.start is not None and told[4].after.start.middle - NOW >= 1000
    assert told[2].verdict is Verdict.LATER and told[3].verdict is Verdict.LATER


def test_several_changes_are_made_together() -> None:
    more = NodesAdded(("n1",), "a"), PriorityChange(3, 5)
    answer = _asked(_present(), *more)
    assert _finish(answer, 3) < _finish(answer, 2)
    assert all(each.verdict is not Verdict.LATER for each in answer.jobs if each.number != 2)


def test_a_reservation_moves_devices_between_pools() -> None:
    pools = PoolTree({"a": Pool("a"), "b": Pool("b")})
    holds = running(job("j1", 4, number=1, pool="a"), placement(*(("n0", 1 << b) for b in range(4))))
    others = [job("j2", 4, number=2, pool="a"), job("j3", 8, number=3, pool="b")]
    seen = view(cluster(1), [holds, *others], pools)
    outlooks = {1: _known(1000.0, 4), 2: _known(1000.0, 4), 3: _known(500.0, 8)}
    present = Present(replace(seen, outlooks=outlooks), NOW, POLICIES["fifo"])
    answer = _asked(present, PoolChange(Pool("b", quotas={"A100": Quota(8)})))
    assert {each.number: each.verdict for each in answer.jobs}[3] is Verdict.EARLIER
    assert set(answer.pools) == {"a", "b"}
    assert answer.pools["b"].change.middle > 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (PolicyChange("tiresas"), "no policy named"),
        (PoolChange(Pool("a", quotas={"A100": Quota(99)})), "would reserve 99 A100"),
        (PoolChange(Pool("a", parent="default")), "would not take jobs"),
        (NodesAdded(("n0",), "a"), "a node n0 already"),
        (NodesAdded(("n7",), "dgx"), "no node is like 'dgx'; there are: a"),
        (NodesDrained(("n9",)), "no node named 'n9'"),
        (NodesDrained(("n0",), at=NOW + 60, by=NOW + 30), "only after they begin"),
        (SubmissionChange(job("j1", 1)), "is called 'nobody/j1' already"),
        (SubmissionChange(job("new", 9, same_generation=True)), "can never run"),
        (PriorityChange(17, 1), "no live job 17"),
    ],
)
def test_what_cannot_be_changed_is_rejected(change: Alteration, problem: str) -> None:
    with pytest.raises(ChangeError, match=problem):
        altered(_present(), [change])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ([PoolChange(Pool("default", policy="fifo", aim="fair"))], "'default': fifo has no aim 'fair'"),
        ([PoolChange(Pool("default", aim="fair"))], "'default': fifo has no aim 'fair'"),
        (
            [PoolChange(Pool("default", aim="fair")), PolicyChange("srtf")],
            "'default': srtf has no aim 'fair'",
        ),
    ],
)
def test_an_aim_that_the_policy_does_not_have_is_rejected(
    changes: list[Alteration], problem: str
) -> None:
    with pytest.raises(ChangeError, match=problem):
        altered(_present(), changes)


def test_a_policy_and_the_aim_that_it_has_are_made_together() -> None:
    asked = PolicyChange("muster"), PoolChange(Pool("default", aim="fair"))
    for changes in (asked, asked[::-1]):
        found = altered(_present(), changes).present
        assert found.policy.name == "muster" and found.view.pools.pools["default"].aim == "fair"


def _reserved(**devices: int) -> list[PoolChange]:
    return [PoolChange(Pool(name, quotas={"A100": Quota(n)})) for name, n in devices.items()]


def _halves() -> Present:
    """Two pools reserve half of a node each; its job is of a third, which reserves nothing."""
    present = _present()
    pools = {"default": Pool("default"), **{each.pool.name: each.pool for each in _reserved(a=4, b=4)}}
    return replace(present, view=replace(present.view, pools=PoolTree(pools)))


def test_pools_are_checked_once_after_all_changes() -> None:
    for changes in (_reserved(a=6, b=2), _reserved(b=2, a=6)):
        found = altered(_halves(), changes).present.view.pools
        assert [found.pools[name].quota("A100").reservation for name in "ab"] == [6, 2]
    with pytest.raises(ChangeError, match="would reserve 9 A100, but there are 8"):
        altered(_halves(), _reserved(a=6, b=3))


def test_a_pool_may_hang_below_one_that_is_new_as_well() -> None:
    child = PoolChange(Pool("vision", parent="lab"))
    found = altered(_halves(), [child, PoolChange(Pool("lab"))])
    assert found.present.view.pools.below["lab"] == ("vision",)


def test_nodes_that_join_now_count_for_reservations_later_ones_do_not() -> None:
    asked: list[Alteration] = [NodesAdded(("n1",), "a"), *_reserved(a=12)]
    for changes in (asked, asked[::-1]):
        assert altered(_halves(), changes).present.view.pools.pools["a"].quota("A100").reservation == 12
    with pytest.raises(ChangeError, match="would reserve 16 A100, but there are 8"):
        altered(_halves(), [NodesAdded(("n1",), "a", at=NOW + 60), *_reserved(a=12)])


def test_a_job_that_is_submitted_twice_is_not_called_live() -> None:
    twice = [SubmissionChange(job("new", 1)), SubmissionChange(job("new", 1))]
    with pytest.raises(ChangeError, match=r"^'nobody/new' is submitted twice; choose another name"):
        altered(_present(), twice)


_SAME: tuple[Alteration, ...] = (
    PolicyChange("fifo"),
    PoolChange(Pool("default")),
    PriorityChange(2, 0),
)


@given(
    changes=st.lists(st.sampled_from(_SAME), max_size=3),
    spread=st.floats(0.0, 1.5),
    policy=st.sampled_from(["fifo", "srtf", "tiresias", "muster"]),
    seed=st.integers(0, 1000),
)
def test_a_change_that_changes_nothing_makes_no_difference(
    changes: list[Alteration], spread: float, policy: str, seed: int
) -> None:
    present = _present(policy, spread, nodes=2)
    own = [PolicyChange(policy) if isinstance(each, PolicyChange) else each for each in changes]
    answer = what_if(present, Past(), WhatIfQuestion(tuple(own), 3, seed))
    assert all(each.finish == NOTHING for each in answer.jobs)
    assert all(each.start in (None, NOTHING) for each in answer.jobs)
    figures = (answer.completion, answer.makespan, answer.used, answer.fragmentation)
    assert all(each.change == NOTHING for each in (*figures, *answer.pools.values()))


@given(spread=st.floats(0.1, 1.5), seed=st.integers(0, 1000))
def test_both_sides_are_played_with_the_same_draws(spread: float, seed: int) -> None:
    """A job that nothing holds up ends at the same moment of each world, however uncertain that is."""
    present = _present("fifo", spread)
    changes = (PriorityChange(3, 5), SubmissionChange(job("new", 8)))
    answer = what_if(present, Past(), WhatIfQuestion(changes, 4, seed))
    first = answer.jobs[0]
    assert first.number == 1 and first.after.finish.low < first.after.finish.high
    assert first.finish == NOTHING


def test_progress_is_told_world_by_world() -> None:
    told: list[tuple[int, int]] = []
    asked = WhatIfQuestion((PolicyChange("srtf"),), 3)
    what_if(_present(), Past(), asked, lambda done, of: told.append((done, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_empty_queue_has_an_answer() -> None:
    present = Present(view(cluster(1), []), NOW, POLICIES["fifo"])
    assert _asked(present, PolicyChange("srtf")).jobs == ()
    (new,) = _asked(present, SubmissionChange(job("new", 8), outlook=_known(50.0, 8))).jobs
    assert new.verdict is Verdict.NEW and new.after.finish.middle >= NOW + 50
