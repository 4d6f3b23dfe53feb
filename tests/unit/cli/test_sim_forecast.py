"""`muster sim forecast`: what a simulation says of its future, beside what came."""

import json
from pathlib import Path

import pytest

from muster.files.errors import InputError
from tests.unit.cli.invoke import invoke
from tests.unit.sim.small import cluster_file, trace_file

ROWS = (*(f"{400 * i},1,300,past{i}" for i in range(10)), "4000,1,300,first", "4010,1,300,second")
"""Ten jobs of 5 minutes, one after the other; then two at once, on one device."""


def _ask(folder: Path, at: str, *more: str) -> str:
    given = ("--cluster", cluster_file(folder), "--trace", trace_file(folder, *ROWS), "--at", at)
    words = ["sim", "forecast", *map(str, given), "--policy", "fifo", "--pause", "0s", *more]
    result = invoke(words)
    if isinstance(result.exception, InputError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_start_and_finish_with_what_came(tmp_path: Path) -> None:
    """The first has 290 s left, as all before it took 300; the second follows it."""
    answer = json.loads(_ask(tmp_path, "4010s", "-o", "json"))[0]
    first, second = answer["jobs"]
    assert (first["name"], first["jobs"], first["came"]) == ("first", 10, 4300.0)
    assert first["finish"]["middle"] == pytest.approx(4300.0, abs=30)
    assert second["start"]["middle"] == pytest.approx(4300.0, abs=60)
    assert second["finish"]["middle"] == pytest.approx(4600.0, abs=90)


def test_a_table_says_what_each_forecast_rests_on(tmp_path: Path) -> None:
    text = _ask(tmp_path, "1h6m50s")
    assert "After 1h06m: 2 live jobs" in text
    assert "10 similar jobs" in text
    assert "ends were within their 80% interval." in text


def test_asked_after_the_end_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the simulation is over by then; ask earlier"):
        _ask(tmp_path, "9h")
