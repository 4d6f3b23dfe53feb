"""Who is beside whom, followed as jobs come and go."""

from dataclasses import replace

from muster.model.event import NodeLost
from muster.perf.history.neighbours import Rival
from muster.policy.published.fifo import Fifo
from muster.sim.engine import Engine
from muster.sim.trace.open_trace import TraceOptions, open_trace
from tests.builders import cluster
from tests.unit.sim.scripted import setting

TRACE = "poisson:sizes=1:2+2:2+6:1,mean=600,capacity=24,load=0.8,jobs=80"


def test_company_is_that_of_the_neighbourhood_at_every_moment() -> None:
    made = setting(Fifo(), cluster(3), incidents=(NodeLost("n0", 3000.0),))
    arrivals = [
        replace(each, job=replace(each.job, application="ab"[each.job.number % 2]))
        for each in open_trace(TRACE, TraceOptions(seed=1))
    ]
    executor = (engine := Engine(made, arrivals)).executor
    assert executor.neighbourhood is not None
    met = set()
    for _ in engine.frames():
        for number in executor.lives:
            beside = executor.neighbourhood.beside(number).items()
            expected = {
                Rival(common, executor.lives[other].job.application or "")
                for other, shared in beside
                for common in shared
            }
            assert set(executor.company.of(number)) == expected
            met |= expected
    assert len(met) > 3
