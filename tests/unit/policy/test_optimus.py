"""Optimus: largest marginal gain per dominant resource."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from muster.model.job import Job, Need
from muster.model.outlook import Outlook
from muster.model.view import Phase
from muster.policy.base import exactly
from muster.policy.published.optimus import Optimus
from tests.builders import GB, cluster, job, node_set, running, view
from tests.builders import placement as at
from tests.numbers import number
from tests.unit.policy.deal import ask, devices, left, on, pools, told, types, workers


def test_one_device_at_a_time_goes_to_the_largest_gain() -> None:
    # Seconds left of a on 1, 2, 3 devices: 120, 60, 40; of b: 63, 42, 31.5. One each; then a gains 60
    # and b 21: a; then a gains 20 and b 21: b.
    seen = view(devices(4), [job("a", most=9), job("b", most=9)])
    seen = told(seen, a=left(120, 1, 2, 3, 4), b=left(63, 1, 1.5, 2, 2.5))
    assert workers(Optimus(), seen) == {"a": 2, "b": 2}


def test_first_everybody_gets_one_in_order_of_arrival() -> None:
    # c would gain most by far, but there is nothing left for it.
    seen = view(devices(2), [job(name, most=4) for name in "abc"])
    seen = told(seen, a=left(1, 1, 2), b=left(1, 1, 2), c=left(1e6, 1, 2))
    assert workers(Optimus(), seen) == {"a": 1, "b": 1, "c": 0}


def test_nothing_is_given_that_gains_nothing() -> None:
    # Two workers are no faster than one, so that the third's gain is never looked at.
    seen = told(view(devices(8), [job("a", most=8)]), a=left(100, 1, 1, 5))
    assert workers(Optimus(), seen) == {"a": 1}


def test_a_job_gets_no_more_than_its_most() -> None:
    seen = told(view(devices(8), [job("a", most=3)]), a=left(100, *range(1, 9)))
    assert workers(Optimus(), seen) == {"a": 3}


def test_a_young_jobs_gain_is_damped() -> None:
    # a gains 42 - 21 = 21, b 40 - 20 = 20. Uncertain by more than 0.3, a's counts 0.95 * 21 = 19.95.
    seen = view(devices(3), [job("a", most=2), job("b", most=2)])
    sure = told(seen, a=left(42, 1, 2, spread=0.3), b=left(40, 1, 2))
    unsure = told(seen, a=left(42, 1, 2, spread=0.31), b=left(40, 1, 2))
    assert workers(Optimus(), sure) == {"a": 2, "b": 1}
    assert workers(Optimus(), unsure) == {"a": 1, "b": 2}


@dataclass(frozen=True, slots=True)
class Served:
    """Seconds of one unit of work by (workers, servers)."""

    seconds: Mapping[tuple[int, int], float]

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        return 1 / self.seconds[workers, servers]

    def batch(self, device_type: str, workers: int) -> int | None:
        return None


def served_job(most_servers: int) -> Job:
    """Up to 3 workers of a device and a core, and servers of a core."""
    core = Need(millicores=1_000, memory=GB)
    asked = job("j", most=3, need=replace(core, devices=1), servers=1, server_need=core)
    roles = (asked.roles[0], replace(asked.roles[1], most=most_servers))
    return replace(asked, roles=roles)


TIMES = Served(
    {(1, 1): 100, (2, 1): 60, (1, 2): 70, (2, 2): 50, (1, 3): 70, (3, 2): 45, (2, 3): 50, (3, 1): 58}
)


def test_gains_count_by_the_dominant_resource() -> None:
    # 2 devices and 3 cores, of which the first worker and server take 1 and 2. A worker is 1/2 of the
    # devices, a server 1/3 of the cores: a worker gains (100 - 60) / (1/2) = 80, a server
    # (100 - 70) / (1/3) = 90. So the last core goes to a server, though a worker would save more time.
    small = cluster(1, node_set(devices=2, sockets=1, switches=1, cores=3))
    seen = told(view(small, [served_job(3)]), j=Outlook(1.0, TIMES))
    assert ask(Optimus(), seen).allocations == (exactly(number("j"), 1, servers=2, device_type="A100"),)


def test_workers_and_servers_are_dealt_until_neither_gains() -> None:
    # 2 devices, 32 cores: a worker is 1/2, a server 1/32. Server: 30 * 32 = 960 against 40 * 2 = 80;
    # then a third server gains 0 and a worker (70 - 50) * 2: (2, 2). A third worker has no device, a
    # third server gains nothing.
    seen = view(devices(2), [served_job(3)])
    seen = told(seen, j=Outlook(1.0, TIMES))
    assert ask(Optimus(), seen).allocations == (exactly(number("j"), 2, servers=2, device_type="A100"),)


def test_a_job_gets_no_more_servers_than_its_most() -> None:
    seen = view(devices(2), [served_job(1)])
    seen = told(seen, j=Outlook(1.0, TIMES))
    assert ask(Optimus(), seen).allocations == (exactly(number("j"), 2, servers=1, device_type="A100"),)


def test_workers_without_devices_share_cores() -> None:
    # 4 cores and no devices at all: 100, 50, 33.3 s against 90, 45, 30 s. The gangs take 2 cores; the
    # gains are 50 and 45, then 16.7 and 45.
    core = Need(millicores=1_000)
    seen = view(
        cluster(1, node_set(devices=0, cores=4)), [job(name, most=4, need=core) for name in "ab"]
    )
    seen = told(seen, a=left(100, 1, 2, 3, 4), b=left(90, 1, 2, 3, 4))
    assert ask(Optimus(), seen).allocations == (exactly(number("a"), 2), exactly(number("b"), 2))


def test_pools_limits_hold() -> None:
    jobs = [job("a", most=8, pool="p"), job("b", most=8, pool="q")]
    seen = view(devices(8), jobs, pools(p=2, q=8))
    seen = told(seen, a=left(1e6, *range(1, 9)), b=left(10, *range(1, 9)))
    assert workers(Optimus(), seen) == {"a": 2, "b": 6}


def test_what_cannot_be_changed_is_left_alone_and_counted() -> None:
    # The first may not be stopped, the second is resizing from 1 to 2 devices: 8 - 1 - 2 = 5 for the
    # third.
    fixed = running(job("fixed", most=8, preemptible=False), at(("n0", 0b1)))
    moving = running(job("moving", most=8), at(("n0", 0b10)), phase=Phase.RESIZING)
    moving = replace(moving, target=at(("n0", 0b10), ("n0", 0b100)))
    seen = view(devices(8), [fixed, moving, job("free", most=8)])
    linear = left(100, *range(1, 9))
    assert workers(Optimus(), told(seen, fixed=linear, moving=linear, free=linear)) == {"free": 5}


def test_a_job_of_which_nothing_is_known_is_taken_to_speed_up_with_its_devices() -> None:
    # Unknown and fresh: a device-hour left, so 3600, 1800, 1200 s; its gains, 1800 and 600, count 0.95.
    # Known: 2000, 1000, 667 s: gains 1000, 333. Third device: 1710 > 1000; fourth: 570 < 1000.
    seen = view(devices(4), [job("known", most=4), job("unknown", most=4)])
    seen = told(seen, known=left(2000, 1, 2, 3, 4))
    assert workers(Optimus(), seen) == {"known": 2, "unknown": 2}


def test_what_an_unknown_job_has_had_is_what_it_has_left() -> None:
    # It has held 2 devices for 5400 s: 10,800 device-seconds; gains 5400 and 1800, times 0.95.
    held = running(job("unknown", most=4), at(("n0", 0b1), ("n0", 0b10)), since=0.0)
    seen = told(view(devices(4), [job("known", most=4), held]), known=left(2000, 1, 2, 3, 4))
    assert workers(Optimus(), seen, now=5400.0) == {"known": 1, "unknown": 3}


def test_the_faster_type_is_chosen_and_its_batch_said() -> None:
    seen = told(view(types(A=4, B=4), [job("a", most=2)]), a=on(A=1, B=3))
    assert ask(Optimus(), seen).allocations == (exactly(number("a"), 2, device_type="B", batch=128),)


def test_equal_types_are_both_used() -> None:
    seen = view(types(A=2, B=2), [job("a", most=4), job("b", most=4)])
    said = ask(Optimus(), told(seen, a=on(A=1, B=1), b=on(A=1, B=1))).allocations
    assert [(each.most, each.device_type) for each in said] == [(2, "A"), (2, "B")]


# Powers of two, so that nothing is rounded and equal gains are equal.
STEPS = st.lists(st.sampled_from([2.0**n for n in range(-3, 5)]), min_size=8, max_size=8)


@given(st.lists(st.tuples(STEPS, st.integers(1, 1000), st.integers(1, 8)), min_size=1, max_size=6))
def test_with_one_device_a_worker_it_is_the_rule_of_the_t4_evaluation(
    jobs: list[tuple[list[float], int, int]],
) -> None:
    """One each, then the largest (step time now - step time with one more) x steps left."""
    names = [f"j{at}" for at in range(len(jobs))]
    seen = view(
        devices(4), [job(name, most=most) for name, (_, _, most) in zip(names, jobs, strict=True)]
    )
    outlooks = {
        name: left(float(steps), *(1 / time for time in times))
        for name, (times, steps, _) in zip(names, jobs, strict=True)
    }
    given_out = [1 if at < 4 else 0 for at in range(len(jobs))]
    while sum(given_out) < 4:
        gains = [
            (times[n - 1] - times[n]) * steps if 0 < n < most else 0.0
            for (times, steps, most), n in zip(jobs, given_out, strict=True)
        ]
        best = max(range(len(jobs)), key=lambda at: gains[at])
        if gains[best] <= 0:
            break
        given_out[best] += 1
    said = workers(Optimus(), told(seen, **outlooks))
    assert list(said.values()) == given_out
