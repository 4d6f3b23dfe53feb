"""Jobs of a trace that come after others start once those have ended."""

from pathlib import Path

import pytest

from muster.policy.registry import POLICIES
from muster.sim.result import Fate, Result
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, run_prepared
from tests.unit.sim.small import cluster_file, trace_file

HEADING = "submitted,devices,duration,name,after"


def simulated(folder: Path, *rows: str, policy: str = "fifo") -> Result:
    trace = trace_file(folder, *rows, heading=HEADING)
    cluster = cluster_file(folder, devices=4)
    made = Configuration(cluster=str(cluster), trace=str(trace), policy=policy, pause=0.0)
    return run_prepared(prepare(made))


def starts(result: Result) -> dict[str, float | None]:
    return {each.name: each.started for each in result.records}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_job_starts_when_all_that_it_comes_after_have_ended(tmp_path: Path, policy: str) -> None:
    rows = ("0,1,100,prep,", "0,1,300,other,", "5,1,50,train,prep|other:any", "5,1,10,free,")
    found = starts(simulated(tmp_path, *rows, policy=policy))
    assert found["train"] is not None
    assert found["train"] >= 300.0
    assert found["free"] is not None
    assert found["free"] < 100.0, "it passes who waits"


def test_a_parent_that_has_ended_before_is_met(tmp_path: Path) -> None:
    found = starts(simulated(tmp_path, "0,1,10,prep,", "60,1,50,train,prep"))
    assert found["train"] == 60.0


def test_what_can_never_start_is_refused_and_so_is_what_comes_after_it(tmp_path: Path) -> None:
    rows = ("0,64,10,huge,", "0,1,10,child,huge", "0,1,10,small,", "0,1,10,rescue,small:failed")
    result = simulated(tmp_path, *rows)
    fates = {each.name: each.fate for each in result.records}
    assert fates == {
        "huge": Fate.REFUSED,
        "child": Fate.REFUSED,
        "rescue": Fate.REFUSED,
        "small": Fate.DONE,
    }
    assert any("comes after 'huge', which was refused" in note for note in result.notes)
    assert any("simulated jobs do not fail" in note for note in result.notes)
