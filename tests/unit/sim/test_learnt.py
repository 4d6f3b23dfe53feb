"""Learnt beliefs against a measured truth: they never look at it, and come near it all the same."""

from dataclasses import replace
from pathlib import Path

import pytest

from muster.files import shipped_profile
from muster.model.outlook import Outlook
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.sim.learnt import Learnt
from muster.sim.truth import Arrival, Ideal, JobPace, Truth
from muster.sim.worlds.t4_files import read_tables, read_workload
from tests.builders import cluster, job, node_set

MINI = Path(__file__).parents[2] / "data" / "t4-mini"
TABLES = read_tables(MINI / "speeds")
RANGES = {name: model.range for name, model in TABLES.items()}


class Sealed:
    """A truth that nobody may look at."""

    @property
    def work(self) -> float:
        raise AssertionError("looked at the work")

    def pace(self, crew: Held, done: float) -> JobPace:
        raise AssertionError("looked at the pace")

    def shown(self, crew: Held, done: float) -> StepReport:
        raise AssertionError("looked at the steps")

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        raise AssertionError("looked at the outlook")

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        raise AssertionError("looked at the bounds")


@pytest.fixture
def jobs() -> list[Arrival]:
    return list(read_workload(MINI / "workload.csv", TABLES))


def truth_of(arrival: Arrival) -> Truth:
    assert arrival.truth is not None
    return arrival.truth


def test_beliefs_come_near_the_truth_once_a_job_has_run(jobs: list[Arrival]) -> None:
    first, second, _ = jobs
    truth, beliefs = truth_of(first), Learnt({"T4": 4}, RANGES)
    for part, nodes in enumerate([(1,), (4,), (4, 1), (4, 4)]):
        done = truth.work * part / 4
        crew = Held("T4", nodes)
        beliefs.watch(first.job, crew, truth.shown(crew, done), done)
    beliefs.ended(first.job, truth.work)
    told, true = beliefs.outlook(second.job, Sealed(), None, 0.0), truth_of(second).outlook(0.0)
    for devices in (1, 4, 5, 8):
        seconds = told.left / told.speed.rate("T4", devices)
        assert seconds == pytest.approx(true.left / true.speed.rate("T4", devices), rel=0.15)


def test_what_runs_is_measured_where_it_runs(jobs: list[Arrival]) -> None:
    first = jobs[0]
    truth, beliefs, crew = truth_of(first), Learnt({"T4": 4}, RANGES), Held("T4", (4, 1))
    beliefs.watch(first.job, crew, truth.shown(crew, 100.0), 100.0)
    told = beliefs.outlook(first.job, Sealed(), crew, 100.0)
    assert told.here is not None
    assert told.here == pytest.approx(told.speed.rate("T4", 5), rel=0.05)


def test_more_devices_than_were_ever_tried_are_told_as_if_they_scaled(jobs: list[Arrival]) -> None:
    """Five were tried, twice as many are told of: at twice the speed, so that somebody tries them."""
    first = jobs[0]
    truth, beliefs, crew = truth_of(first), Learnt({"T4": 4}, RANGES), Held("T4", (4, 1))
    beliefs.watch(first.job, crew, truth.shown(crew, 100.0), 100.0)
    told = beliefs.outlook(first.job, Sealed(), crew, 100.0).speed
    assert told.rate("T4", 10) >= 2 * told.rate("T4", 5) * 0.999
    wide = Held("T4", (4, 4, 2))
    beliefs.watch(first.job, wide, truth.shown(wide, 100.0), 100.0)
    told = beliefs.outlook(first.job, Sealed(), wide, 100.0).speed
    assert told.rate("T4", 10) < 2 * told.rate("T4", 5) * 0.999


def test_lengths_are_unsure_until_jobs_have_ended(jobs: list[Arrival]) -> None:
    first, second, _ = jobs
    truth, beliefs, crew = truth_of(first), Learnt({"T4": 4}, RANGES), Held("T4", (4,))
    beliefs.watch(first.job, crew, truth.shown(crew, 100.0), 100.0)
    before = beliefs.outlook(second.job, Sealed(), None, 0.0).spread
    for _ in range(8):
        beliefs.ended(first.job, truth.work)
    assert beliefs.outlook(second.job, Sealed(), None, 0.0).spread < before / 2


def test_a_model_with_a_known_shape_has_a_curve_before_its_first_step() -> None:
    nodes = cluster(16, node_set(device_type="T4", devices=4))
    first = replace(job("a", 1, most=64, application="imagenet", batch=3200), number=1)
    plain, told = (
        Learnt({"T4": 4}, cluster=nodes, models=models).outlook(first, Sealed(), None, 0.0).speed
        for models in ({}, {"imagenet": shipped_profile("resnet50")})
    )
    assert plain.rate("T4", 32) == plain.rate("T4", 4)  # nothing is promised beyond a node
    assert told.rate("T4", 32) > 2 * told.rate("T4", 4)
