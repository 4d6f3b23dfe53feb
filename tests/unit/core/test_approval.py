"""Planners that want the same devices: none of them has the first choice of all of them."""

from muster.core.cycle.cycle import Cycle, Memory
from muster.core.planners.approve import in_turn
from muster.core.planners.beside import PlannersBeside
from muster.core.planners.proposal import CycleQuestion, Proposal
from muster.core.state.check import check
from muster.model.decision import Kind
from muster.model.pool import Pool, PoolTree, Quota
from muster.policy.registry import POLICIES
from tests.builders import cluster, job, view


def test_of_what_two_planners_want_each_gets_its_part() -> None:
    # One node of eight devices: both pools' planners want its first device, then its second, ...
    asked = [job(f"{pool}{i}", 1, pool=pool) for pool in "ab" for i in range(8)]
    share = {"A100": Quota(reservation=4)}
    seen = view(cluster(1), asked, PoolTree({pool: Pool(pool, quotas=share) for pool in "ab"}))
    policy = POLICIES["muster"]
    decided = Cycle(policy, planners=PlannersBeside(policy, 2)).decide(seen, 0.0, Memory())
    check(seen, decided)
    started = [seen.jobs[d.job].job.pool for d in decided.decisions if d.kind is Kind.START]
    assert sorted(started) == list("aaaabbbb")
    assert decided.approved is not None
    assert decided.approved.refused == 4, "every second one, placed again at once"


class OnePlanner(PlannersBeside):
    """Two planners, of which the second has died."""

    def propose(self, asked: CycleQuestion) -> list[Proposal]:
        return super().propose(asked)[:1]


def test_nobody_borrows_what_the_pool_of_a_dead_planner_is_entitled_to() -> None:
    quick, slow = (job(f"a{i}", 4, pool="a") for i in range(2))
    mine = job("b", 4, pool="b")
    share = {"A100": Quota(reservation=4)}
    pools = PoolTree({pool: Pool(pool, quotas=share) for pool in "ab"})
    seen = view(cluster(1), [quick, slow, mine], pools)
    for name in ("fifo", "muster"):
        policy = POLICIES[name]
        decided = Cycle(policy, planners=OnePlanner(policy, 2)).decide(seen, 0.0, Memory())
        check(seen, decided)
        started = {seen.jobs[d.job].job.name for d in decided.decisions if d.kind is Kind.START}
        assert started in ({"a0", "b"}, {"a1", "b"}), name


def test_lists_are_heard_in_turn_whatever_their_lengths() -> None:
    assert list(in_turn(["ab", "xyz"])) == list("axybz")
    assert list(in_turn([])) == []
