"""How busy devices are is charged to the jobs that hold them."""

import pytest

from muster.daemon.account.accounts import Accounts
from muster.daemon.account.meter import FLUSH
from muster.daemon.loop.fold import Turn
from muster.daemon.loop.state import State
from muster.model.event import StartBegun, Submitted
from muster.model.task import Fact
from tests.builders import cluster, job, placement, view

TWO = placement(("n0", 1), ("n0", 4))


def test_the_devices_of_a_job_tell_how_busy_they_are() -> None:
    asked = job("a", 2)
    facts: list[Fact] = [Submitted(asked, 0.0), StartBegun(asked.number, 1, TWO, 0.0)]
    state = State(view(cluster(1)), {}, "fifo").after(facts)
    accounts = Accounts()
    accounts.adopt(accounts.charges(Turn(state, {}, facts=facts), 0.0))
    accounts.busy = lambda: {"n0": (0.5, 1.0, None, 1.0)}
    (use,) = accounts.charges(Turn(state, {}), FLUSH).uses
    assert use.held == 2 * FLUSH
    assert use.busy == pytest.approx(0.5 * use.held)
    assert use.watched == use.held
    accounts.busy = lambda: {"n0": (0.5, 1.0, 0.1)}
    (use,) = Accounts._watched(accounts, state, [use], ())
    assert use.busy == pytest.approx(0.3 * use.held)
