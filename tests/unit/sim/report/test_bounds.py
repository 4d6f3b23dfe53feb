"""Lower bounds: right on small cases, and never above what any schedule reaches."""

import random
from functools import cache
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.sim.report.bounds import CompletionBounds, bounds, bounds_of, machine, mixed
from muster.sim.result import Fate
from tests.unit.sim.report.made_up import record, result, sample


def test_srpt_lets_a_short_job_pass() -> None:
    # The long one runs 0..1 and 2..5, the short one 1..2: 5 s and 1 s.
    assert machine(np.array([0.0, 1.0]), np.array([4.0, 1.0])) == pytest.approx(3.0)


def test_srpt_does_not_stop_a_job_that_is_nearly_done() -> None:
    # At 3 one second is left of the first: it ends at 4, the other at 6: 4 s and 3 s.
    assert machine(np.array([0.0, 3.0]), np.array([4.0, 2.0])) == pytest.approx(3.5)


def test_a_machine_that_idles_starts_again() -> None:
    assert machine(np.array([0.0, 100.0]), np.array([2.0, 4.0])) == pytest.approx(3.0)


def test_the_mixed_bound_knows_both_the_queue_and_the_jobs_own_pace() -> None:
    # Two jobs of 2 device-seconds on 2 devices, neither in less than 1.5 s. One after the other their
    # mean moments are 0.5 and 1.5 s, half a job later 1.25 and 2.25: 1.75 in the mean, where the jobs
    # alone give 1.5 and the machine (1 + 2) / 2.
    found = bounds_of(np.zeros(2), np.full(2, 1.5), np.full(2, 2.0), 2)
    assert (found.alone, found.machine) == (1.5, 1.5)
    assert found.mixed == pytest.approx(1.75)
    assert found.best == found.mixed


def test_jobs_of_no_work_take_no_time() -> None:
    assert bounds_of(np.zeros(2), np.zeros(2), np.zeros(2), 4) == CompletionBounds(0.0, 0.0, 0.0)


def test_only_jobs_that_are_done_count_and_the_largest_cluster() -> None:
    # 12 device-seconds on 4 devices at most: 3 s on the machine; alone 10 s.
    refused = record("r", fate=Fate.REFUSED, started=None, ended=None, best=999.0, least=999.0)
    found = bounds(result(record(least=12.0), refused, samples=(sample(0.0, capacity=2), sample(5.0))))
    assert found is not None
    assert (found.alone, found.machine, found.best) == (10.0, 3.0, 10.0)
    assert bounds(result(refused, samples=(sample(0.0),))) is None


SLOTS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=4)


@given(SLOTS)
def test_srpt_is_the_best_of_all_schedules_in_whole_seconds(jobs: list[tuple[int, int]]) -> None:
    release = tuple(r for r, _ in jobs)

    @cache
    def least(now: int, left: tuple[int, ...]) -> float:
        """Sum of the times at which jobs end, from now on, over every choice each second."""
        if not any(left):
            return 0.0
        ready = [i for i, work in enumerate(left) if work and release[i] <= now]
        if not ready:
            return least(now + 1, left)
        found = inf
        for i in ready:
            after = (*left[:i], left[i] - 1, *left[i + 1 :])
            found = min(found, (now + 1 if not after[i] else 0) + least(now + 1, after))
        return found

    best = least(0, tuple(size for _, size in jobs)) - sum(release)
    sizes = np.array([float(size) for _, size in jobs])
    assert machine(np.array(release, float), sizes) == pytest.approx(best / len(jobs))


WORLD = st.tuples(
    st.lists(
        st.tuples(
            st.floats(0, 30),  # submitted
            st.floats(0.5, 60),  # device-seconds on one device
            st.integers(1, 6),  # the most devices it can use
            st.floats(0.3, 1.0),  # power of its speed-up
        ),
        min_size=1,
        max_size=7,
    ),
    st.integers(1, 6),
    st.integers(0, 2**20),
    st.booleans(),
)


@given(WORLD)
def test_no_schedule_is_below_the_bounds(
    world: tuple[list[tuple[float, float, int, float]], int, int, bool],
) -> None:
    jobs, devices, seed, greedy = world
    mean = played(jobs, devices, random.Random(seed), greedy)
    release, work = (np.array([job[i] for job in jobs]) for i in (0, 1))
    # A speed-up of k^p with p <= 1 is most efficient on one device and fastest on the most.
    best = np.array([w / min(k, devices) ** p for _, w, k, p in jobs])
    found = bounds_of(release, best, work, devices)
    for bound in (found.alone, found.machine, found.mixed):
        assert mean >= bound - 1e-6 * (1 + bound)


def played(
    jobs: list[tuple[float, float, int, float]], devices: int, rng: random.Random, greedy: bool
) -> float:
    """Mean completion time of a schedule on whole devices: shortest first, or any how."""
    left = {i: job[1] for i, job in enumerate(jobs)}
    now, total = 0.0, 0.0
    while left:
        live = [i for i in left if jobs[i][0] <= now]
        following = min((jobs[i][0] for i in left if jobs[i][0] > now), default=inf)
        if not live:
            now = following
            continue
        live.sort(key=lambda i: left[i] if greedy else rng.random())
        free, speed = devices, {}
        for i in live:
            given = min(free, jobs[i][2]) if greedy else rng.randint(0, min(free, jobs[i][2]))
            # Something must go on, or the play might never end.
            given = given or (1 if i == live[-1] and free == devices else 0)
            free -= given
            if given:
                speed[i] = given ** jobs[i][3]
        step = min([following - now, *(left[i] / s for i, s in speed.items())])
        if not greedy:
            step = min(step, rng.uniform(0.5, 20))
        now += step
        for i, s in speed.items():
            left[i] -= step * s
            if left[i] <= 1e-9:
                total += now - jobs[i][0]
                del left[i]
    return total / len(jobs)


def test_a_day_of_jobs_is_bounded_closely() -> None:
    """On one device SRPT is possible, so that no bound may be above it and the machine's is it."""
    rng = np.random.default_rng(5)
    release, size = np.sort(rng.uniform(0, 1000, 300)), rng.exponential(3.0, 300)
    srpt = machine(release, size)
    assert 0.9 * srpt < mixed(release, size, size) <= srpt * (1 + 1e-9)
