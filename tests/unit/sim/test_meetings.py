"""What the simulator's jobs show about their neighbours."""

import pytest

from muster.model.slowdowns import Common
from muster.policy.published.fifo import Fifo
from muster.sim.disturbance import UNDISTURBED, Disturbance
from muster.sim.engine import Engine
from muster.sim.meetings import Meetings
from muster.sim.trace.open_trace import TraceOptions, open_trace
from tests.builders import cluster
from tests.unit.sim.scripted import setting

TRACE = "poisson:sizes=1:1,mean=600,capacity=16,load=0.7,jobs=80"
TRUE = Disturbance(switch=0.4, socket=0.2, node=0.1)


def played(disturbance: Disturbance) -> Engine:
    """One-device jobs that come and go on two nodes, beside each other more often than not."""
    made = setting(Fifo(), cluster(2), disturbance=disturbance)
    engine = Engine(made, open_trace(TRACE, TraceOptions(seed=1)))
    for _ in engine.frames():
        pass
    return engine


def test_steps_beside_neighbours_show_what_these_cost() -> None:
    found = played(TRUE).view.slowdowns
    assert found.typical[Common.SWITCH] == pytest.approx(0.4, abs=0.1)
    assert found.typical[Common.SOCKET] == pytest.approx(0.2, abs=0.05)
    assert found.typical[Common.NODE] == pytest.approx(0.1, abs=0.03)


def test_what_is_known_of_neighbours_holds_until_these_change() -> None:
    engine = Engine(
        setting(Fifo(), cluster(2), disturbance=TRUE), open_trace(TRACE, TraceOptions(seed=1))
    )
    told = 0
    for _ in engine.frames():
        known = engine.meetings.all_slowed()
        fresh = Meetings(engine.executor, 0, 0.0)
        fresh._encounters = engine.meetings._encounters
        assert known == fresh.all_slowed()
        told += any(factor > 1.0 for factor in known.values())
    assert told


def test_where_neighbours_do_no_harm_none_is_found() -> None:
    found = played(UNDISTURBED).view.slowdowns
    assert max(found.typical[each] for each in found.proven) < 0.03
