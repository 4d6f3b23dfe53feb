"""Generators: the same from a seed, in order, and with the means their source gives."""

from dataclasses import replace
from itertools import islice
from math import log
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.job import Role
from muster.perf.learnt.held import Held
from muster.sim.trace.draw import BoundedPareto, Exponential, LogUniform, Sizes, daily, even
from muster.sim.trace.generate import (
    GAVEL_DURATIONS,
    GAVEL_SIZES,
    GENERATORS,
    Diurnal,
    OptimusJobs,
    PhillyLike,
    PoissonJobs,
    optimus,
    philly_like,
    poisson,
)
from muster.sim.trace.inspect import alone
from muster.sim.worlds.curves import Curves
from muster.sim.worlds.fixed import Fixed
from muster.sim.worlds.optimus_types import TYPES
from muster.sim.worlds.power import PowerLaw


@pytest.mark.parametrize("name", GENERATORS)
@given(seed=st.integers(0, 2**40))
@settings(max_examples=10)
def test_a_seed_gives_the_same_jobs_again_in_order(name: str, seed: int) -> None:
    generator = GENERATORS[name]
    parameters = generator.parameters(jobs=30)
    once = list(generator.make(parameters, seed))
    assert once == list(generator.make(parameters, seed))
    assert len(once) == 30
    assert len({arrival.job.name for arrival in once}) == 30
    at = [arrival.at for arrival in once]
    assert at == sorted(at)
    assert at[0] >= 0
    assert once != list(generator.make(parameters, seed + 1))


@pytest.mark.parametrize("name", GENERATORS)
def test_jobs_are_made_as_they_are_asked_for(name: str) -> None:
    generator = GENERATORS[name]
    assert len(list(islice(generator.make(generator.parameters(jobs=10**9), 0), 5))) == 5


def test_even_moments_are_in_order_and_halve_the_window() -> None:
    moments = list(even(Random(1), 2000, 100.0))
    assert moments == sorted(moments)
    assert max(moments) <= 100
    # A median of 2000 even draws has a standard deviation of 100 / (2 sqrt(2000)) = 1.1.
    assert moments[1000] == pytest.approx(50, abs=4.5)


def test_gavels_mean_size_and_run_time() -> None:
    # Sizes: 0.7·1 + 0.1·2 + 0.15·4 + 0.05·8 = 1.9.
    assert GAVEL_SIZES.mean == pytest.approx(1.9)
    # E[60·10^U(a, b)] = 60 (10^b - 10^a) / ((b - a) ln 10): 60 (1000 - 31.623) / 3.4539 = 16,822 s and
    # 60 (10,000 - 1,000) / 2.3026 = 234,519 s; 0.8 and 0.2 of them are 60,362 s.
    assert GAVEL_DURATIONS.mean == pytest.approx(60_362, rel=1e-4)


def test_a_load_becomes_a_rate_by_the_means() -> None:
    # 0.5 · 64 devices / (1.9 · 60,362 s) = 2.790e-4 jobs/s
    assert PhillyLike(load=0.5, capacity=64).per_second(GAVEL_DURATIONS) == pytest.approx(
        2.790e-4, rel=1e-3
    )
    assert PhillyLike(rate=36.0).per_second(GAVEL_DURATIONS) == pytest.approx(0.01)


def test_the_load_that_was_asked_for_arrives() -> None:
    # Exponential run times: 4000 jobs have a relative error of about sqrt(2/4000 + 1/4000) = 2.7 %.
    jobs = list(poisson(PoissonJobs(jobs=4000, load=0.6, capacity=10), 1))
    asked = sum(arrival.truth.work for arrival in jobs if isinstance(arrival.truth, Fixed))
    assert asked / (10 * jobs[-1].at) == pytest.approx(0.6, rel=0.12)


def test_gavels_sizes_are_drawn_as_often_as_they_should() -> None:
    jobs = list(philly_like(PhillyLike(jobs=4000), 2))
    ones = fmean(arrival.job.workers.gang == 1 for arrival in jobs)
    assert ones == pytest.approx(0.7, abs=0.03)  # four standard deviations of sqrt(.7·.3/4000)
    durations = [arrival.truth.work for arrival in jobs if arrival.truth is not None]
    assert min(durations) >= 60 * 10**1.5
    assert max(durations) <= 60 * 10**4


def test_a_higher_load_brings_the_same_jobs_sooner() -> None:
    calm = list(philly_like(PhillyLike(jobs=50, load=0.4), 3))
    busy = list(philly_like(PhillyLike(jobs=50, load=0.8), 3))
    assert [(arrival.job, arrival.truth) for arrival in calm] == [
        (arrival.job, arrival.truth) for arrival in busy
    ]
    assert calm[-1].at == pytest.approx(2 * busy[-1].at)


def test_elastic_jobs_have_a_range_and_a_power_law() -> None:
    (arrival,) = poisson(PoissonJobs(jobs=1, sizes=Sizes((2,), (1.0,)), elastic=4, exponent=0.5), 0)
    assert (arrival.job.workers.gang, arrival.job.workers.most) == (2, 8)
    assert isinstance(arrival.truth, PowerLaw)
    assert arrival.truth.speed.rate("", 8) == pytest.approx(2.0)


def test_where_a_job_lies_matters_only_with_a_spread() -> None:
    # 8 devices on two nodes of 8 instead of one: 1 / (1 + 0.25)
    (arrival,) = poisson(PoissonJobs(jobs=1, sizes=Sizes((8,), (1.0,)), spread=0.25), 0)
    assert arrival.truth is not None
    assert arrival.truth.pace(Held("V100", (8,)), 0.0).rate == 1.0
    assert arrival.truth.pace(Held("V100", (4, 4)), 0.0).rate == pytest.approx(0.8)
    (arrival,) = poisson(PoissonJobs(jobs=1, sizes=Sizes((8,), (1.0,))), 0)
    assert isinstance(arrival.truth, Fixed)


def test_users_and_pools_are_dealt() -> None:
    jobs = list(poisson(PoissonJobs(jobs=200, users=3, pools=2), 0))
    assert {arrival.job.user for arrival in jobs} == {"u1", "u2", "u3"}
    assert {arrival.job.pool for arrival in jobs} == {"p1", "p2"}


def test_means_in_closed_form() -> None:
    assert LogUniform(1.0, 10.0).mean == pytest.approx(9 / log(10))
    # Shape 2 from 1 to 2: density 2 x^-3 / (3/4); mean = 8/3 · (1 - 1/2) = 4/3.
    assert BoundedPareto(2.0, 1.0, 2.0).mean == pytest.approx(4 / 3)
    # Shape 1 from 1 to 2: density x^-2 / (1/2); mean = 2 ln 2.
    assert BoundedPareto(1.0, 1.0, 2.0).mean == pytest.approx(2 * log(2))


@given(st.floats(0.2, 3.0), st.floats(1.0, 100.0), st.floats(1.5, 1e4), st.integers(0, 1000))
def test_pareto_run_times_keep_their_bounds(shape: float, low: float, wide: float, seed: int) -> None:
    tail = BoundedPareto(shape, low, low * wide)
    assert low <= tail.draw(Random(seed)) <= low * wide * (1 + 1e-12)
    assert low <= tail.mean <= low * wide


def test_more_jobs_come_by_day_than_by_night() -> None:
    # Rate 1 + cos: the twelve hours around the peak hold 1/2 + 1/π = 82 % of the day.
    moments = islice(daily(Random(1), 0.01, 1.0, 12 * 3600.0), 4000)
    by_day = fmean(6 <= (moment / 3600) % 24 < 18 for moment in moments)
    assert by_day == pytest.approx(0.818, abs=0.03)


def test_a_swing_leaves_the_mean_rate_as_it_was() -> None:
    moments = list(islice(daily(Random(2), 0.01, 0.8, Diurnal().peak), 4000))
    assert 4000 / moments[-1] == pytest.approx(0.01, rel=0.08)


def test_exponential_run_times_have_their_mean() -> None:
    random, durations = Random(1), Exponential(100.0)
    assert fmean(durations.draw(random) for _ in range(4000)) == pytest.approx(100.0, rel=0.08)


def test_optimus_jobs_have_workers_and_servers_and_arrive_in_the_window() -> None:
    jobs = list(optimus(OptimusJobs(jobs=200), 0))
    assert max(arrival.at for arrival in jobs) <= 12_000
    assert {arrival.job.name.rpartition("-")[0] for arrival in jobs} == {kind.name for kind in TYPES}
    roles = {spec.role: spec for spec in jobs[0].job.roles}
    worker, server = roles[Role.WORKER], roles[Role.SERVER]
    assert (worker.gang, worker.most, worker.need.devices, worker.need.millicores) == (1, 10, 1, 2_000)
    assert (server.gang, server.most, server.need.devices, server.need.millicores) == (1, 10, 0, 3_000)


def test_optimus_jobs_are_no_longer_than_they_may_be_nor_in_fewer_epochs() -> None:
    parameters = OptimusJobs(jobs=100)
    jobs = list(optimus(parameters, 0))
    assert max(alone(arrival) for arrival in jobs) <= 6 * 3600 * (1 + 1e-9)
    short = list(optimus(replace(parameters, longest=600.0), 0))
    epochs = [arrival.truth.work for arrival in jobs if isinstance(arrival.truth, Curves)]
    assert epochs == [arrival.truth.work for arrival in short if isinstance(arrival.truth, Curves)]
    assert all(10 <= count <= 100 for count in epochs)


def test_optimus_in_cpu_containers_needs_no_devices() -> None:
    (arrival,) = optimus(OptimusJobs(jobs=1, on="cpu"), 0)
    assert {spec.need.devices for spec in arrival.job.roles} == {0}
    assert {spec.need.millicores for spec in arrival.job.roles} == {5_000}
