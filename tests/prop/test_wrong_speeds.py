"""Speeds that lie at first do no harm for long: policy, learner and engine correct them together."""

from dataclasses import dataclass, replace
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.model.pool import single_pool
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.policy.registry import POLICIES
from muster.sim.beliefs import Oracle, OutlookSource
from muster.sim.engine import Engine, Setting
from muster.sim.executor import Pauses
from muster.sim.learnt import Learnt
from muster.sim.truth import Arrival, Ideal, JobPace
from muster.sim.worlds.power import PowerLaw, PowerSpeed
from tests import builders

CYCLES = 40
"""After which throughput must be back."""
INTERVAL = 60.0
LONG = 1e7
"""s on one device: nobody ends meanwhile."""


@dataclass(frozen=True, slots=True)
class Reporting:
    """A power law that reports every minute of its work on one device, as live jobs do."""

    law: PowerLaw

    @property
    def work(self) -> float:
        return self.law.work

    def pace(self, crew: Held, done: float) -> JobPace:
        return JobPace(self.law.pace(crew, done).rate, 60.0 * (floor(done / 60.0) + 1))

    def shown(self, crew: Held, done: float) -> StepReport:
        return self.law.shown(crew, done)

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        return self.law.outlook(done, crew)

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        return self.law.ideal(device_type, fewest, most)


class Lied(Learnt):
    """Learns from reports of which the first of each job are off by a factor."""

    def __init__(self, lies: dict[str, tuple[float, ...]]) -> None:
        super().__init__({"A": 4})
        self._lies = {name: list(each) for name, each in lies.items()}

    def watch(self, job: Job, crew: Held, shown: StepReport, done: float) -> None:
        lies = self._lies[job.name]
        factor = lies.pop(0) if lies else 1.0
        super().watch(job, crew, replace(shown, step=shown.step * factor), done)


def throughput(beliefs: OutlookSource, exponents: dict[str, float]) -> float:
    """Work per s, in that of one device each, of all jobs after `CYCLES`."""
    cluster = builders.cluster(2, builders.node_set(devices=4, device_type="A"))
    arrivals = [
        Arrival(
            0.0,
            builders.job(name, 1, most=8, application=name, batch=64, work=LONG, pause=1.0),
            Reporting(PowerLaw(LONG, PowerSpeed(exponent=exponent))),
        )
        for name, exponent in exponents.items()
    ]
    made = Setting(
        cluster,
        single_pool(cluster.devices_by_type()),
        POLICIES["muster"],
        pauses=Pauses(),
        beliefs=lambda: beliefs,
        steady=True,
        until=CYCLES * INTERVAL,
    )
    engine = Engine(made, arrivals)
    for _ in engine.frames():
        pass
    return sum(life.rate for life in engine.executor.lives.values())


LIES = st.lists(st.sampled_from((0.1, 10.0)), min_size=1, max_size=3).map(tuple)


@settings(max_examples=4, deadline=None, derandomize=True, database=None)
@given(first=LIES, second=LIES, steep=st.sampled_from((0.5, 0.9)))
def test_throughput_is_back_within_a_tenth_of_the_best(
    first: tuple[float, ...], second: tuple[float, ...], steep: float
) -> None:
    exponents = {"flat": 0.3, "steep": steep}
    best = throughput(Oracle(), exponents)
    found = throughput(Lied({"flat": first, "steep": second}), exponents)
    assert found >= 0.9 * best


def test_without_lies_it_is_there_too() -> None:
    exponents = {"flat": 0.3, "steep": 0.9}
    honest = throughput(Lied({"flat": (), "steep": ()}), exponents)
    assert honest == pytest.approx(throughput(Oracle(), exponents), rel=0.1)
