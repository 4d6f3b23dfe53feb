"""`muster sim trace`: what is in a trace, its first jobs, and which generators there are."""

import json
from pathlib import Path
from typing import Any

from muster.files.errors import InputError
from muster.sim.trace.generate import GENERATORS
from tests.unit.cli.invoke import invoke
from tests.unit.sim.small import cluster_file, trace_file

ROWS = ("0,1,3600,a,ada", "3600,2..4,1800,b,bob")
HEADING = "submitted,devices,duration,name,user"


def printed(*arguments: str | Path) -> str:
    """What the command prints."""
    result = invoke(["sim", "trace", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def as_data(*arguments: str | Path) -> Any:
    """The same as data."""
    return json.loads(printed(*arguments, "-o", "json"))


def test_it_says_what_is_in_a_trace(tmp_path: Path) -> None:
    """1 x 1 h and 2 x 0.5 h are 2 device-hours, over 1 h of 4 devices a load of 0.5."""
    trace = trace_file(tmp_path, *ROWS, heading=HEADING)
    text = printed(trace, "--cluster", cluster_file(tmp_path, devices=4))
    assert "jobs          2, 1 of them elastic" in text
    assert "device-hours  2" in text
    assert "capacity      4 devices, a load of 0.50" in text


def test_it_is_data_too(tmp_path: Path) -> None:
    trace = trace_file(tmp_path, *ROWS, heading=HEADING)
    told = as_data(trace, "--cluster", cluster_file(tmp_path))
    assert (told["jobs"], told["device_hours"], told["mean_load"]) == (2, 2.0, 2.0)
    assert (told["too_large"], told["left_out"]) == (1, 0)


def test_the_first_jobs_are_shown(tmp_path: Path) -> None:
    trace = trace_file(tmp_path, *ROWS, heading=HEADING)
    lines = printed(trace, "--head", "5").splitlines()
    assert lines[0].split() == [
        "SUBMITTED", "NAME", "DEVICES", "ALONE", "POOL", "USER", "APPLICATION",
    ]  # fmt: skip
    assert lines[2].split() == ["3,600", "s", "b", "2..4", "30", "m", "default", "bob", "-"]
    (only,) = as_data(trace, "--head", "1")
    assert (only["name"], only["devices"], only["alone"]) == ("a", 1, 3600.0)


def test_options_reach_the_trace(tmp_path: Path) -> None:
    trace = trace_file(tmp_path, *ROWS, "0,1,x,c,cy", heading=HEADING)
    told = as_data(trace, "--skip", "--sort", "--rigid")
    assert (told["jobs"], told["left_out"], told["elastic"]) == (2, 1, 0)
    assert as_data("poisson:jobs=50", "--first", "7")["jobs"] == 7
    one, two = (as_data("poisson:jobs=5", "--seed", str(seed)) for seed in (1, 2))
    assert one["last"] != two["last"]


def test_rows_left_out_are_noted(tmp_path: Path) -> None:
    trace = trace_file(tmp_path, "0,1,x,a", "0,1,5,b")
    assert "Note: 1 row was skipped; the first: " in printed(trace, "--skip")


def test_without_a_trace_the_generators_are_listed() -> None:
    text = printed()
    for name in GENERATORS:
        assert f"\n    {name}:jobs=" in text
        line = next(each for each in text.splitlines() if each.startswith(f"    {name}:"))
        assert as_data(line.strip(), "--first", "1")["jobs"] == 1, "what is shown can be given"


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    result = invoke(["sim", "trace", str(trace_file(tmp_path, heading="a,b"))])
    assert isinstance(result.exception, InputError)
    assert "columns are missing: submitted, devices, duration" in str(result.exception)
