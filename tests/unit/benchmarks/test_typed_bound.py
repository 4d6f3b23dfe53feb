"""The bound that `sim_types.py` holds means against is below every schedule, and near the best one."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from muster.sim.truth import Arrival
from muster.sim.worlds.power import PowerLaw, PowerSpeed
from tests.builders import job

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
PAIR = {"T4": 1, "A100": 1}


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as the benchmarks themselves import it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in [each for each in sys.modules if each.split(".")[0] == "support"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("support.typed_bound")


def arrival(name: str, seconds: float, gang: int = 1, pause: float = 0.0) -> Arrival:
    """A job of some s on T4, four times as fast on an A100, that comes after 10 s."""
    asked = job(name, gang=gang, most=gang, pause=pause)
    return Arrival(10.0, asked, PowerLaw(seconds, PowerSpeed(gang, 1.0, {"A100": 4.0})))


def test_a_job_alone_takes_its_pause_and_its_time_on_the_best_type(bound: ModuleType) -> None:
    assert bound.lp_bound([arrival("a", 400.0, pause=30.0)], PAIR, 1000.0) == pytest.approx(130.0)


def test_of_two_jobs_one_has_to_use_the_slow_type_or_wait(bound: ModuleType) -> None:
    # At best one has the A100 for 100 s; the other does a quarter on the T4 meanwhile, and the rest
    # in 75 s on the A100.
    found = bound.lp_bound([arrival("a", 400.0), arrival("b", 400.0)], PAIR, 1000.0)
    assert 120.0 < found <= (100.0 + 175.0) / 2


def test_where_only_the_slow_type_has_room_its_time_counts(bound: ModuleType) -> None:
    found = bound.lp_bound([arrival("a", 400.0, gang=2)], {"T4": 2, "A100": 1}, 1000.0)
    assert found > 100.0
    assert bound.lp_bound([arrival("a", 400.0)], {"T4": 1}, 1000.0) == pytest.approx(400.0)
