"""What is said of a trace before it is played."""

import json
from pathlib import Path

import pytest

from muster.model.job import Job
from muster.sim.trace.generate import PhillyLike, philly_like
from muster.sim.trace.inspect import summarise
from muster.sim.trace.roles import workers
from muster.sim.trace.show import shown_summary, sparkline, time_shown
from muster.sim.trace.table import read_table
from muster.sim.truth import Arrival
from muster.sim.worlds.fixed import Fixed

EXAMPLES = Path(__file__).parents[4] / "examples/traces"


def _arrival(at: float, devices: int, seconds: float, **fields: str) -> Arrival:
    job = Job(f"{at}-{devices}", roles=workers(devices, devices), **fields)  # type: ignore[arg-type]
    return Arrival(at, job, Fixed(seconds, devices))


def test_a_small_trace_by_hand() -> None:
    # 1 · 3600 + 4 · 1800 + 1 · 7200 = 18,000 device-seconds = 5 device-hours in 7,200 s:
    # 18,000 / (5 · 7,200) = 0.5 of five devices. At 1,800 s the first two run: 5 devices.
    jobs = [
        _arrival(0.0, 1, 3600.0, user="ada", pool="a"),
        _arrival(1800.0, 4, 1800.0, user="ben", pool="a"),
        _arrival(7200.0, 1, 7200.0, user="ada", pool="b"),
    ]
    summary = summarise(jobs, capacity=5)
    assert (summary.jobs, summary.span, summary.elastic) == (3, 7200.0, 0)
    assert summary.devices == ((1, 2), (4, 1))
    assert summary.device_hours == pytest.approx(5.0)
    assert summary.mean_load == pytest.approx(0.5)
    assert summary.peak == 5
    assert dict(summary.durations)[0.5] == 3600.0
    assert summary.users.most == (("ada", 2), ("ben", 1))
    assert (summary.pools.different, summary.applications.different) == (2, 0)
    assert summary.by_hour[:3] == (2.0, 0.0, 1.0)


def test_load_over_time_sums_to_all_of_it() -> None:
    summary = summarise(philly_like(PhillyLike(jobs=300), 1), capacity=64)
    assert sum(summary.load.values) * summary.load.span / 3600 == pytest.approx(summary.device_hours)
    assert sum(summary.arrivals.values) * summary.arrivals.span / 3600 == pytest.approx(300)


def test_a_job_that_ends_makes_way_for_one_that_begins() -> None:
    assert summarise([_arrival(0.0, 4, 100.0), _arrival(100.0, 4, 100.0)]).peak == 4


def test_elastic_jobs_count_as_what_they_ask_for() -> None:
    summary = summarise(read_table(EXAMPLES / "small.csv"))
    assert summary.elastic == 3
    # 8·7200 + 1200 + 3600 + 3600 + 2·5400 + 4·300 = 78,000 s
    assert summary.device_hours == pytest.approx(78_000 / 3600)


def test_jobs_beyond_the_capacity_and_without_a_run_time_are_counted() -> None:
    unknown = Arrival(5.0, Job("a", roles=workers(1, 1)))
    summary = summarise([_arrival(0.0, 16, 60.0), unknown], capacity=8)
    assert (summary.too_large, summary.unknown) == (1, 1)
    text = shown_summary(summary)
    assert "1 jobs ask for more devices than the cluster has" in text
    assert "1 jobs have no run time" in text


def test_nothing_in_nothing_out() -> None:
    summary = summarise([])
    assert (summary.jobs, summary.peak, summary.mean_load) == (0, 0, None)
    assert shown_summary(summary) == "no jobs"
    json.dumps(summary.as_json(), allow_nan=False)


def test_it_is_plain_json() -> None:
    summary = summarise(philly_like(PhillyLike(jobs=50, users=3), 1), capacity=64)
    read = json.loads(json.dumps(summary.as_json(), allow_nan=False))
    assert read["jobs"] == 50
    assert read["mean_load"] == pytest.approx(summary.mean_load)


def test_the_screen_has_sizes_times_and_curves() -> None:
    text = shown_summary(summarise(read_table(EXAMPLES / "small.csv"), capacity=16))
    assert "jobs          6, 3 of them elastic" in text
    assert "users         4: ada 2, cleo 2, ben 1, ops 1" in text
    assert "      1           3  50.0 % ██████████████████████████████" in text
    assert "load offered, every" in text


def test_a_sparkline_is_full_at_its_largest() -> None:
    assert sparkline([0.0, 1.0, 4.0, 8.0]) == " ▂▅█"
    assert sparkline([0.0, 0.0]) == "  "


@pytest.mark.parametrize(
    ("seconds", "said"), [(45.0, "45 s"), (90.0, "1.5 m"), (12_600.0, "3.5 h"), (1_036_800.0, "12 d")]
)
def test_times_are_said_as_people_do(seconds: float, said: str) -> None:
    assert time_shown(seconds) == said
