"""How many tasks of each role."""

from dataclasses import replace

import pytest

from muster.model.job import Job, Need, Role, RoleSpec
from muster.planner.counts import plan_for
from tests.builders import job


def with_servers(gang: int, most: int, servers: tuple[int, int, int]) -> Job:
    asked = job("j", gang, most=most)
    return replace(asked, roles=(*asked.roles, RoleSpec(Role.SERVER, Need(0, 500, 0), *servers)))


@pytest.mark.parametrize(("workers", "servers"), [(2, 1), (4, 2), (5, 3), (6, 3), (8, 4)])
def test_servers_grow_in_step_with_workers(workers: int, servers: int) -> None:
    plan = plan_for(with_servers(2, 8, (1, 1, 4)), workers)
    assert (plan.count(Role.WORKER), plan.count(Role.SERVER)) == (workers, servers)


def test_more_workers_never_mean_fewer_servers() -> None:
    asked = with_servers(1, 40, (2, 3, 17))
    counts = [plan_for(asked, workers).count(Role.SERVER) for workers in range(1, 41)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (2, 17)


def test_a_fixed_number_of_workers_has_the_least_servers() -> None:
    assert plan_for(with_servers(4, 4, (1, 2, 4)), 4).count(Role.SERVER) == 2


def test_fewer_workers_than_the_gang_keep_a_gang_of_servers() -> None:
    """Nobody is placed so, but what explains asks it: never fewer than none."""
    asked = with_servers(4, 8, (1, 1, 4))
    assert [plan_for(asked, n).count(Role.SERVER) for n in (1, 2, 3)] == [1, 1, 1]
