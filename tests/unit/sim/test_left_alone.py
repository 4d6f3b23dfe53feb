"""A job that nothing happens to: what it shows of itself is acted upon all the same."""

from functools import partial

from muster.files.source.quantity import Counts
from muster.model.job import Job
from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.learnt import Learnt
from muster.sim.scenario.run import simulate
from muster.sim.trace.columns import truth_of
from muster.sim.trace.roles import workers
from muster.sim.truth import Arrival
from tests import builders

CLUSTER = builders.cluster(8)
TYPE = CLUSTER.device_types()[0]
HOUR = 3600.0


def took(*, pause: float, rounds: bool) -> float:
    """When a job of 100 hours on one device, or less on 64, ends alone in the cluster."""
    job = Job(
        "large",
        roles=workers(1, 64),
        pause=pause,
        restarts=pause >= 30.0,
        application="net",
        number=1,
    )
    setting = Setting(
        CLUSTER,
        single_pool(CLUSTER.devices_by_type()),
        POLICIES["muster"],
        beliefs=partial(Learnt, {TYPE: 8}),
        rounds=rounds,
    )
    truth = truth_of(Counts(1, 64), 100 * HOUR, 0.95, 0.0, 8)
    (record,) = simulate(setting, [Arrival(0.0, job, truth)]).records
    assert record.ended is not None
    return record.ended


def test_a_job_left_alone_grows_as_far_with_cheap_changes_as_with_dear_ones() -> None:
    live, restarted = took(pause=1.0, rounds=False), took(pause=30.0, rounds=True)
    assert live < restarted


def test_a_job_left_alone_comes_to_use_what_is_idle() -> None:
    assert took(pause=1.0, rounds=False) < 1.1 * 100 * HOUR / 64**0.95
