"""Elastic jobs among idle devices, with beliefs that are wrong at first."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.files.source.quantity import Counts
from muster.model.job import Job
from muster.model.pool import single_pool
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.policy.registry import POLICIES
from muster.sim.beliefs import OutlookSource
from muster.sim.engine import Engine, Setting
from muster.sim.learnt import Learnt
from muster.sim.trace.columns import truth_of
from muster.sim.trace.roles import workers
from muster.sim.truth import Arrival
from tests import builders

EIGHT = builders.cluster(1)
TYPE = EIGHT.device_types()[0]
HOUR = 3600.0


def elastic(most: int) -> Job:
    return Job("elastic", roles=workers(1, most), pause=1.0, application="net", number=1, work=2 * HOUR)


def misled(most: int, slow: float) -> OutlookSource:
    """What is known after another job of the application ran on a busy machine."""
    beliefs = Learnt({TYPE: 8})
    before = Job("before", roles=workers(1, most), application="net", number=99)
    beliefs.watch(before, Held(TYPE, (1,)), StepReport(1.0), 10.0)
    for count in range(2, most + 1):
        beliefs.watch(before, Held(TYPE, (count,)), StepReport(slow), 10.0)
    return beliefs


def widest_and_finish(most: int, slow: float, exponent: float = 1.0) -> tuple[int, float]:
    """The workers it came to have, and its time from the start to the end."""
    truth = truth_of(Counts(1, most), 2 * HOUR, exponent, 0.0, 8)
    setting = Setting(
        EIGHT,
        single_pool(EIGHT.devices_by_type()),
        POLICIES["muster"],
        beliefs=partial(misled, most, slow),
    )
    engine = Engine(setting, [Arrival(0.0, elastic(most), truth)])
    widest = 0
    for frame in engine.frames():
        for state in frame.after.jobs.values():
            widest = max(widest, state.placement.devices if state.placement else 0)
    return widest, engine.clock.now()


def test_a_wrong_measurement_does_not_keep_a_job_small() -> None:
    widest, took = widest_and_finish(2, slow=3.0)
    assert widest == 2
    assert took < 1.1 * HOUR, "two hours alone, one with two workers from the start"


def test_a_job_that_gains_nothing_loses_little_by_trials() -> None:
    _, took = widest_and_finish(6, slow=1.0, exponent=1e-9)
    assert took == pytest.approx(2 * HOUR, rel=0.02)


@settings(max_examples=15, deadline=None)
@given(most=st.integers(2, 8), slow=st.floats(0.9, 5.0))
def test_idle_devices_are_always_tried(most: int, slow: float) -> None:
    widest, took = widest_and_finish(most, slow)
    assert widest == most
    assert took < 2 * HOUR
