"""AFS: one device at a time, to the winner of comparisons in pairs."""

from dataclasses import replace
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from muster.model.job import Need
from muster.model.outlook import Outlook
from muster.model.view import Phase, View
from muster.policy.base import exactly
from muster.policy.published.afs import Afs
from tests.builders import job, running, view
from tests.builders import placement as at
from tests.numbers import number
from tests.unit.policy.deal import ask, devices, left, on, pools, told, types, workers

AFS_P = Afs("afs-p", known=False)


def pair(count: int, **outlooks: Outlook) -> View:
    """Jobs `l` and `s`, in this order, on this many devices."""
    seen = view(devices(count), [job("l", most=8), job("s", most=8)])
    return told(seen, **outlooks)


# In all of these both begin with one device: s because it is shorter, then l because (p' - 0) / p' =
# 1 is more than what s would gain. Then s has 10 s left and l 100 s.


def test_the_shorter_gets_the_next_device_if_it_uses_it_well() -> None:
    # (1.9 - 1) / 1.9 = 0.47 is not above (1.8 - 1) / 1 = 0.8.
    seen = pair(3, l=left(100, 1, 1.9), s=left(10, 1, 1.8))
    assert workers(Afs(), seen) == {"l": 1, "s": 2}


def test_the_longer_gets_it_if_the_shorter_uses_it_badly() -> None:
    # 0.47 is above (1.2 - 1) / 1 = 0.2.
    seen = pair(3, l=left(100, 1, 1.9), s=left(10, 1, 1.2))
    assert workers(Afs(), seen) == {"l": 2, "s": 1}


def test_the_longers_gain_counts_over_its_speed_after_not_before() -> None:
    # (1.9 - 1) / 1.9 = 0.474 against (1.5 - 1) / 1 = 0.5: s. Over its speed before it would be 0.9.
    seen = pair(3, l=left(100, 1, 1.9), s=left(10, 1, 1.5))
    assert workers(Afs(), seen) == {"l": 1, "s": 2}


def test_who_is_shorter_is_judged_by_what_each_has() -> None:
    # s (50 s on one device) and l (60 s) as before, one each; third device: 0.47 against 0.6: s,
    # which then has 50 / 1.6 = 31 s. Fourth: l (1.9 - 1) / 1.9 = 0.47 against s (1.7 - 1.6) / 1.6 =
    # 0.06: l, which then has 60 / 1.9 = 31.6 s. Fifth: l's (2.8 - 1.9) / 2.8 = 0.32 against 0.06: l,
    # which is now the shorter, with 60 / 2.8 = 21 s. Sixth: s is the longer and would gain (1.7 -
    # 1.6) / 1.7 = 0.059, l (2.9 - 2.8) / 2.8 = 0.036: s.
    seen = pair(6, l=left(60, 1, 1.9, 2.8, 2.9), s=left(50, 1, 1.6, 1.7))
    assert workers(Afs(), seen) == {"l": 3, "s": 3}


def test_of_two_without_anything_the_shorter_goes_first() -> None:
    seen = pair(1, l=left(100, 1, 1.9), s=left(10, 1, 1.8))
    assert workers(Afs(), seen) == {"l": 0, "s": 1}


def test_a_perfectly_parallel_job_keeps_a_second_one_waiting() -> None:
    # (p' - 0) / p' = 1 for l is not above (2 - 1) / 1 = 1 for s; but it is above (3 - 2) / 2.
    seen = pair(2, l=left(100, 1, 2, 3), s=left(10, 1, 2, 3))
    assert workers(Afs(), seen) == {"l": 0, "s": 2}
    seen = pair(3, l=left(100, 1, 2, 3), s=left(10, 1, 2, 3))
    assert workers(Afs(), seen) == {"l": 1, "s": 2}


def test_a_job_drops_out_once_one_more_does_not_make_it_faster() -> None:
    seen = pair(8, l=left(100, 1, 1.5, 1.9, 1.9, 5), s=left(10, 1, 1))
    assert workers(Afs(), seen) == {"l": 3, "s": 1}


def test_no_job_gets_more_than_the_cap_or_its_most() -> None:
    seen = view(devices(8), [job("a", most=8), job("b", most=2)])
    seen = told(seen, a=left(10, *range(1, 9)), b=left(10, *range(1, 9)))
    assert workers(Afs(cap=3), seen) == {"a": 3, "b": 2}
    assert workers(Afs(), seen) == {"a": 6, "b": 2}


def test_the_first_grant_is_the_gang_and_gains_count_per_device() -> None:
    # s is shorter (10 s on one device against 100 / 4) and begins. l's gang of 4 counts 1 / 4. s
    # would gain 0.9, then (2.6 - 1.9) / 1.9 = 0.37, then (3.1 - 2.6) / 2.6 = 0.19: after three
    # devices l begins. Of the last device l would make (4.5 - 4) / 4.5 = 0.11, s 0.19.
    seen = view(devices(8), [job("l", 4, most=8), job("s", most=8)])
    seen = told(seen, l=left(100, 1, 2, 3, 4, 4.5), s=left(10, 1, 1.9, 2.6, 3.1, 3.5))
    assert workers(Afs(), seen) == {"l": 4, "s": 4}


def test_a_gang_that_does_not_fit_lets_others_pass() -> None:
    seen = view(devices(4), [job("big", 8), job("small", most=4)])
    seen = told(seen, big=left(1, *range(1, 9)), small=left(100, 1, 2, 3, 4))
    assert workers(Afs(), seen) == {"big": 0, "small": 4}


def test_without_lengths_what_a_job_has_had_stands_for_what_is_left() -> None:
    # Both go 1.5 times as fast on two devices, so the shorter gets the third: 0.5 against 0.33.
    # `done` has nearly ended but has had 10,000 device-seconds, `new` has had none.
    done = running(job("done", most=2), at(("n0", 0b1)), since=0.0)
    seen = view(devices(3), [done, job("new", most=2)])
    seen = told(seen, done=left(1, 1, 1.5), new=left(1e6, 1, 1.5))
    assert workers(Afs(), seen, now=10_000.0) == {"done": 2, "new": 1}
    assert workers(AFS_P, seen, now=10_000.0) == {"done": 1, "new": 2}


def test_without_lengths_work_counts_in_the_jobs_own_unit() -> None:
    # `quick` does 1000 units per s and has had 8000 device-s; `slow` does 0.001 and has had 9000: all
    # that counts is the device-seconds, so quick is the shorter.
    quick = running(job("quick", most=2), at(("n0", 0b1)), served=8000.0)
    slow = running(job("slow", most=2), at(("n0", 0b10)), served=9000.0)
    seen = told(view(devices(3), [slow, quick]), quick=left(1, 1000, 1500), slow=left(1, 1e-3, 1.5e-3))
    assert workers(AFS_P, seen) == {"quick": 2, "slow": 1}


def test_pools_limits_hold() -> None:
    jobs = [job("a", most=8, pool="p"), job("b", most=8, pool="q")]
    seen = view(devices(8), jobs, pools(p=2, q=8))
    seen = told(seen, a=left(1, *range(1, 9)), b=left(10, *range(1, 9)))
    assert workers(Afs(), seen) == {"a": 2, "b": 6}


def test_what_cannot_be_changed_is_left_alone_and_counted() -> None:
    fixed = running(job("fixed", most=8, preemptible=False), at(("n0", 0b1)))
    moving = running(job("moving", most=8), at(("n0", 0b10)), phase=Phase.RESIZING)
    moving = replace(moving, target=at(("n0", 0b10), ("n0", 0b100)))
    seen = view(devices(8), [fixed, moving, job("free", most=8)])
    assert workers(Afs(), told(seen, free=left(100, *range(1, 9)))) == {"free": 5}


def test_a_job_without_devices_has_its_gang() -> None:
    seen = view(devices(2), [job("cores", 3, need=Need(millicores=100)), job("a", most=4)])
    said = ask(Afs(), told(seen, a=left(10, 1, 2))).allocations
    assert set(said) == {exactly(number("cores"), 3), exactly(number("a"), 2, device_type="A100")}


def test_a_job_of_which_nothing_is_known_is_taken_to_speed_up_with_its_devices() -> None:
    # A device-hour left: 3600 s on one device, longer than the other's 100 s. Both linear, so the other
    # gets two, then the unknown one its first, then 1/2 is not above 1/2: the other, ...
    seen = view(devices(4), [job("known", most=8), job("unknown", most=8)])
    seen = told(seen, known=left(100, *range(1, 9)))
    assert workers(Afs(), seen) == {"known": 3, "unknown": 1}


def test_each_job_has_one_type_and_all_types_are_used() -> None:
    seen = view(types(A=2, B=2), [job("a", most=2), job("b", most=2)])
    said = ask(Afs(), told(seen, a=on(10, A=2, B=1), b=on(20, A=2, B=1.5))).allocations
    assert said == (
        exactly(number("a"), 2, device_type="A", batch=128),
        exactly(number("b"), 2, device_type="B", batch=128),
    )


RATES = st.lists(st.sampled_from([1.0, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0]), min_size=6, max_size=6)


@given(st.lists(st.tuples(st.integers(1, 100), RATES), min_size=1, max_size=5))
def test_it_is_the_papers_loop(jobs: list[tuple[int, list[float]]]) -> None:
    """For each device: walk through the jobs, comparing each with the best so far."""
    names = [f"j{at}" for at in range(len(jobs))]
    seen = view(devices(6), [job(name, most=6) for name in names])
    outlooks = {
        name: left(float(work), *rates) for name, (work, rates) in zip(names, jobs, strict=True)
    }

    share = [0] * len(jobs)

    def speed(j: int, n: int) -> float:
        return jobs[j][1][n - 1] if n else 0.0

    def useful(j: int) -> bool:
        return share[j] < 6 and speed(j, share[j] + 1) > speed(j, share[j])

    def time(j: int) -> float:
        return jobs[j][0] / speed(j, share[j]) if share[j] else inf

    def better(old: int, new: int) -> int:
        if not share[old] and not share[new]:
            return new if jobs[new][0] / speed(new, 1) < jobs[old][0] / speed(old, 1) else old
        short, long = (new, old) if time(new) < time(old) else (old, new)
        more_long, more_short = (speed(j, share[j] + 1) for j in (long, short))
        gain_long = (more_long - speed(long, share[long])) / more_long
        gain_short = (more_short - speed(short, share[short])) / speed(short, share[short])
        return long if gain_long > gain_short else short

    live = list(range(len(jobs)))
    for _ in range(6):
        live = [j for j in live if useful(j)]
        if not live:
            break
        best = live[0]
        for j in live[1:]:
            best = better(best, j)
        share[best] += 1
    assert list(workers(Afs(), told(seen, **outlooks)).values()) == share
