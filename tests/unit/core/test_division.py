"""Pools are divided among planners by their jobs, and stay where they are while that is about even."""

from hypothesis import given
from hypothesis import strategies as st

from muster.core.planners.divide import UNEVEN, Division
from muster.model.pool import Pool, PoolTree
from muster.model.view import View
from tests.builders import cluster, job, view


def busy(**jobs: int) -> View:
    """Pools with this many jobs each."""
    asked = [job(f"{pool}{i}", pool=pool) for pool, count in jobs.items() for i in range(count)]
    return view(cluster(1), asked, PoolTree({name: Pool(name) for name in jobs}))


def test_the_busiest_pool_has_a_planner_to_itself() -> None:
    assert Division(2).of(busy(a=1, b=6, c=2, d=2)) == (frozenset("b"), frozenset("acd"))


def test_pools_stay_with_their_planner_until_the_load_is_uneven() -> None:
    division = Division(2)
    before = division.of(busy(a=4, b=4, c=4, d=4))
    assert division.of(busy(a=5, b=4, c=4, d=3)) == before
    crowded, quiet = sorted(before[0]), sorted(before[1])
    jobs = {**dict.fromkeys(crowded, 9), **dict.fromkeys(quiet, 0)}
    after = division.of(busy(**jobs))
    assert all(len(part & set(crowded)) == 1 for part in after)


def test_a_new_pool_moves_no_other() -> None:
    division = Division(2)
    one, other = division.of(busy(a=4, b=4))
    after = division.of(busy(a=4, b=4, c=1))
    assert one <= after[0]
    assert other <= after[1]


def test_there_are_not_more_parts_than_pools() -> None:
    division = Division(4)
    assert division.of(busy(a=1, b=1)) == (frozenset("a"), frozenset("b"))
    assert division.of(busy(b=1)) == (frozenset("b"),)


@given(
    turns=st.lists(
        st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 9), min_size=1),
        min_size=1,
        max_size=4,
    ),
    planners=st.integers(1, 5),
)
def test_every_pool_has_one_planner_and_none_much_more_than_it_need(
    turns: list[dict[str, int]], planners: int
) -> None:
    division = Division(planners)
    for jobs in turns:
        parts = division.of(busy(**jobs))
        assert sorted(leaf for part in parts for leaf in part) == sorted(jobs)
        busiest = max(sum(1 + jobs[leaf] for leaf in part) for part in parts)
        even = sum(1 + each for each in jobs.values()) / len(parts)
        # Graham: at most the mean and one more pool.
        assert busiest <= UNEVEN * (even + 1 + max(jobs.values()))
