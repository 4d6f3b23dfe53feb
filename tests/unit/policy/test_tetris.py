"""Tetris: packing by alignment, leaning to little work left."""

from dataclasses import replace

import pytest

from muster.model.cluster import NodeState
from muster.model.job import Job, Need
from muster.model.outlook import Outlook, Table
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.view import JobState, Phase, View
from muster.policy.base import Shares
from muster.policy.published.tetris import Tetris
from tests.builders import GB, cluster, job, mixed, node_set, running, slot, view
from tests.builders import placement as at
from tests.numbers import by_number, name_of

NODE = node_set(devices=4, cores=4, memory=4 * GB)
"""A task of k devices, k cores and k GB takes k/4 of each: alignment with an empty node 3k/4."""
EQUAL = Need(1, 1_000, GB)


def task(devices: int) -> Need:
    return Need(devices, devices * 1_000, devices * GB)


def ask(seen: View, devices: int = 4, outlooks: dict[str, Outlook] | None = None) -> Shares:
    entitled = Entitlements({("default", "A100"): devices}, {"A100": devices})
    return Tetris().allocate(replace(seen, outlooks=by_number(outlooks or {})), entitled, 0.0, None)


def dealt(shares: Shares) -> list[tuple[str, int]]:
    assert shares.steers
    assert all(each.least == each.most for each in shares.allocations)
    return [(name_of(each.job), each.most) for each in shares.allocations]


def one_node(*jobs: Job | JobState) -> View:
    return view(cluster(1, NODE), jobs)


def loaded(free_devices: int, free_cores: int) -> View:
    """A node of 8 devices and 32 cores of which so much is free; x wants devices, y cores."""
    need = Need(8 - free_devices, (32 - free_cores) * 1_000, 0)
    bits = (1 << need.devices) - 1
    holder = running(job("holder", 1, need=need), at(slot("n0", bits, need=need)))
    x, y = job("x", 1, need=Need(2, 2_000, 0)), job("y", 1, need=Need(1, 8_000, 0))
    return view(cluster(1, node_set(devices=8, cores=32)), [holder, x, y])


def test_the_job_that_wants_what_is_plentiful_goes_first() -> None:
    # Devices 8/8 free, cores 8/32: x 2/8 * 1 + 2/32 * 1/4 = 0.266, y 1/8 * 1 + 8/32 * 1/4 = 0.1875.
    # x leaves 6 cores: y does not fit any more.
    assert dealt(ask(loaded(8, 8), 8)) == [("x", 1)]
    # Devices 2/8 free, cores 32/32: x 2/8 * 1/4 + 2/32 = 0.125, y 1/8 * 1/4 + 8/32 = 0.281.
    assert dealt(ask(loaded(2, 32), 8)) == [("y", 1)]


def test_of_alike_jobs_the_one_with_less_work_left_goes_first() -> None:
    seen = one_node(job("long", 4, duration=30.0), job("short", 4, duration=10.0))
    assert dealt(ask(seen)) == [("short", 4)]


@pytest.mark.parametrize(
    ("seconds", "first"),
    [
        # a: big 3, small 3/4, mean 15/8. p = 3k/4 * s. s = 5: 15 and 7.5, mean 11.25, eps = 1/6:
        # big 3 - 2.5 = 0.5, small 0.75 - 1.25 = -0.5.
        (5.0, "big"),
        # s = 20: 60 and 7.5, mean 33.75, eps = 1/18: big 3 - 3.33 = -0.33, small 0.75 - 0.42 = 0.33.
        (20.0, "small"),
    ],
)
def test_alignment_is_weighed_against_work_left(seconds: float, first: str) -> None:
    big = job("big", 1, need=task(4), duration=seconds)
    small = job("small", 1, need=task(1), duration=10.0)
    assert dealt(ask(one_node(small, big))) == [(first, 1)]


def test_work_left_comes_from_the_outlook_where_there_is_one() -> None:
    # 100 units at 20/s are 5 s, whatever the user said.
    seen = one_node(job("said", 4, duration=6.0), job("known", 4, duration=1_000.0))
    outlooks = {"known": Outlook(100.0, Table((20.0,)))}
    assert dealt(ask(seen, outlooks=outlooks)) == [("known", 4)]


def test_a_job_of_which_nothing_is_known_is_taken_for_the_longest() -> None:
    seen = one_node(job("unknown", 4), job("long", 4, duration=1e6), job("short", 4, duration=1.0))
    assert dealt(ask(seen)) == [("short", 4)]
    both = one_node(job("unknown", 4), job("long", 4, duration=1e6))
    assert dealt(ask(both)) == [("unknown", 4)], "as long as the longest, and older"


def test_nobody_who_runs_is_stopped() -> None:
    long = running(job("long", 4, duration=1e6), at(*(("n0", 1 << i) for i in range(4))))
    assert dealt(ask(one_node(long, job("short", 1, duration=1.0)))) == []


def test_devices_scattered_over_nodes_do_not_hold_a_task_that_needs_them_together() -> None:
    halves = [
        running(job(f"h{i}", 1, need=task(2)), at(slot(f"n{i}", 3, need=task(2)))) for i in (0, 1)
    ]
    seen = view(
        cluster(2, NODE), [*halves, job("whole", 1, need=task(4)), job("half", 1, need=task(2))]
    )
    assert dealt(ask(seen, 8)) == [("half", 1)]


def test_what_is_left_goes_to_jobs_that_get_faster_once_all_gangs_are_in() -> None:
    # `grows` has 1, `new` starts with 1: 2 devices left. One more makes `new` no faster.
    grows = running(job("grows", 1, most=4), at(("n0", 1)))
    outlooks = {
        "grows": Outlook(10.0, Table((1.0, 2.0, 3.0, 4.0))),
        "new": Outlook(1.0, Table((1.0, 1.0))),
    }
    assert dealt(ask(one_node(grows, job("new", 1, most=4)), outlooks=outlooks)) == [
        ("new", 1),
        ("grows", 3),
    ]


def test_nobody_grows_while_a_gang_waits() -> None:
    grows = running(job("grows", 1, most=4), at(("n0", 1)))
    assert dealt(ask(one_node(grows, job("large", 4)))) == []


def test_a_pools_limit_holds() -> None:
    quotas = {"x": Quota(limit=2), "y": Quota()}
    pools = PoolTree({name: Pool(name, quotas={"A100": quota}) for name, quota in quotas.items()})
    holder = running(job("holder", 1, pool="x"), at(("n0", 1)))
    jobs = (holder, job("two", 2, pool="x"), job("one", 1, pool="x"), job("other", 1, pool="y"))
    entitled = Entitlements({("x", "A100"): 4, ("y", "A100"): 4}, {"A100": 4})
    shares = Tetris().allocate(view(cluster(1, NODE), jobs, pools), entitled, 0.0, None)
    assert dict(dealt(shares)) == {"one": 1, "other": 1}


def test_priority_goes_before_score() -> None:
    seen = one_node(job("short", 4, duration=1.0), job("urgent", 4, duration=9.0, priority=1))
    assert dealt(ask(seen)) == [("urgent", 4)]


def test_a_job_in_the_middle_of_a_change_is_left_alone() -> None:
    changing = running(
        job("changing", 1, most=4), at(("n0", 1)), phase=Phase.RESIZING, target=at(("n0", 1), ("n0", 2))
    )
    seen = one_node(changing, job("three", 3), job("two", 2))
    assert dealt(ask(seen)) == [("two", 2)]


def test_nodes_that_take_no_tasks_do_not_count() -> None:
    there = cluster(2, NODE)
    draining = replace(there, nodes=(replace(there.nodes[0], state=NodeState.DRAINING), there.nodes[1]))
    assert dealt(ask(view(draining, [job("a", 8), job("b", 4)]), 4)) == [("b", 4)]


def test_a_job_without_devices_is_packed_by_its_cores() -> None:
    light, heavy = Need(millicores=1_000), Need(millicores=5_000)
    seen = one_node(job("light", 3, need=light), job("heavy", 1, need=heavy))
    assert dealt(ask(seen)) == [("light", 3)]


def test_of_several_types_the_first_on_which_it_fits_is_named() -> None:
    both = mixed((1, NODE), (1, node_set("b", device_type="V100", generation="volta", devices=8)))
    jobs = [job("a", 6, device_types=("A100", "V100")), job("b", 4, device_types=("A100", "V100"))]
    each = {"A100": 4, "V100": 8}
    entitled = Entitlements({("default", name): n for name, n in each.items()}, each)
    shares = Tetris().allocate(view(both, jobs), entitled, 0.0, None)
    assert {name_of(a.job): (a.most, a.device_type) for a in shares.allocations} == {
        "a": (6, "V100"),
        "b": (4, "A100"),
    }


def test_asked_twice_it_says_the_same() -> None:
    seen = one_node(job("a", 1, most=3), job("b", 1, duration=3.0), job("c", 2, need=EQUAL))
    assert ask(seen) == ask(seen)
    assert Tetris().informed
