"""`muster sim run` and the help of `muster sim`: what is printed, written and refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from muster.cli.main import app
from muster.files.errors import InputError
from muster.sim.report.files import read_result
from tests.unit.cli.invoke import invoke
from tests.unit.sim.small import cluster_file, trace_file

TWO = ("0,1,100,a", "0,1,50,b")
"""On one device, a first: they end at 100 and 150, or with 30 s a start at 130 and 210."""


def arguments(folder: Path, *more: str | Path, rows: tuple[str, ...] = TWO) -> list[str]:
    """A run of these jobs on one device."""
    cluster, trace = cluster_file(folder), trace_file(folder, *rows)
    given = ("sim", "run", "--cluster", cluster, "--trace", trace, *more)
    return [str(each) for each in given]


def printed(folder: Path, *more: str | Path) -> str:
    """What a run prints under fifo."""
    result = invoke(arguments(folder, "--policy", "fifo", *more))
    assert result.exit_code == 0, result.output
    return result.stdout


def as_data(folder: Path, *more: str | Path) -> Any:
    """The same as data."""
    return json.loads(printed(folder, "-o", "json", *more))


def refused(folder: Path, *more: str | Path) -> str:
    """The one line that says what is wrong."""
    result = invoke(arguments(folder, *more))
    assert isinstance(result.exception, InputError), result.output
    return str(result.exception)


def test_a_run_prints_its_figures_and_the_bounds(tmp_path: Path) -> None:
    """Mean (100 + 150) / 2. Alone (100 + 50) / 2 = 75; as one machine b first: (50 + 150) / 2 = 100."""
    lines = printed(tmp_path, "--pause", "0s").splitlines()
    assert lines[0].startswith("fifo, seed 0, ")
    assert lines[0].endswith(": 2 of 2 jobs done")
    figures = {line.split()[0]: line.split()[1] for line in lines[3:15]}
    assert (figures["mean"], figures["makespan"], figures["wait"]) == ("125", "150", "50")
    (bound,) = (line for line in lines if line.startswith("Lower bound"))
    assert "100 s (each job alone 75 s, the cluster as one machine 100 s, " in bound
    assert bound.endswith("the mean is 1.25 times that.")


def test_the_same_command_gives_the_same_to_the_digit(tmp_path: Path) -> None:
    one, two = (as_data(tmp_path, "--seed", "3") for _ in range(2))
    assert one.pop("cpu") >= 0
    assert two.pop("cpu") >= 0
    assert one == two
    assert as_data(tmp_path, "--seed", "4")["hash"] != one["hash"]


def test_options_reach_the_simulation(tmp_path: Path) -> None:
    assert as_data(tmp_path)["summary"]["mean"] == (130 + 210) / 2
    assert as_data(tmp_path, "--pause", "1s")["summary"]["mean"] == (101 + 152) / 2
    shortest = as_data(tmp_path, "--pause", "0", "--oracle", "--policy", "srtf")
    assert shortest["summary"]["mean"] == (150 + 50) / 2
    assert shortest["to_bound"] == 1.0
    assert as_data(tmp_path, "--until", "2m", "--pause", "0")["summary"]["unfinished"] == 1
    assert as_data(tmp_path, "--first", "1", "--pause", "0")["summary"]["mean"] == 100


CONFIGURED: dict[str, dict[str, object]] = {
    "--rounds 60s": {"rounds": True, "interval": 60.0},
    "--interval 2m": {"rounds": False, "interval": 120.0},
    "--resize restart": {"restarts": True},
    "--release 5s": {"release": 5.0},
    "--checkpoint 0": {"checkpoint": 0.0},
    "--strategy roomy": {"strategy": "roomy"},
    "--no-migrate": {"migrate": False},
    "--failures mtbf=30d,repair=2h": {"failures": {"mtbf": 30 * 86400.0, "repair": 7200.0}},
    "--interference 0.1": {"interference": {"switch": 0.0, "socket": 0.0, "node": 0.0, "network": 0.1}},
    "--interference switch=0.3,node=0.2": {
        "interference": {"switch": 0.3, "socket": 0.0, "node": 0.2, "network": 0.0}
    },
    "--rigid": {"rigid": True},
    "--most 4": {"most": 4},
    "--noise 0.2": {"noise": 0.2},
    "--sort --skip --one-pool": {"sort": True, "skip": True, "one_pool": True},
}


@pytest.mark.parametrize("text", CONFIGURED)
def test_results_carry_what_was_asked_for(text: str, tmp_path: Path) -> None:
    told = as_data(tmp_path, *text.split())["configuration"]
    assert {name: told[name] for name in CONFIGURED[text]} == CONFIGURED[text]


def test_a_result_is_stored_and_read_back(tmp_path: Path) -> None:
    told = as_data(tmp_path, "--out", tmp_path / "out", "--pause", "0", "--gantt")
    stored = read_result(tmp_path / "out")
    assert stored.hash == told["hash"]
    assert [record.ended for record in stored.records] == [100.0, 150.0]
    assert [(each.job, each.begin, each.end) for each in stored.stints] == [
        ("a", 0.0, 100.0),
        ("b", 100.0, 150.0),
    ]


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    printed(tmp_path, "--out", tmp_path / "csv")
    printed(tmp_path, "--out", tmp_path / "parquet", "--format", "parquet")
    assert (tmp_path / "parquet/jobs.parquet").is_file()
    assert read_result(tmp_path / "parquet").records == read_result(tmp_path / "csv").records


def test_a_report_and_plots_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    page, plots = tmp_path / "new/report.html", tmp_path / "plots"
    printed(tmp_path, "--html", page, "--plots", plots, "--gantt")
    assert page.read_text(encoding="utf-8").count("<svg") == 5
    drawn = {path.name for path in plots.iterdir()}
    assert drawn == {"mean.png", "cdf.png", "load.png", "shares-fifo.png", "gantt-fifo.png"}


WRONG = {
    "--policy fif": "--policy: 'fif' is not a policy (did you mean 'fifo'?)",
    "--pause soon": "--pause: 'soon' is not a time",
    "--pause 30": "--pause: '30' has no unit; write for example",
    "--rounds 0": "--rounds: must be above 0, not '0'",
    "--rounds 60s --interval 60s": "--rounds: conflicts with --interval",
    "--oracle --noise 0.1": "--oracle: conflicts with --noise",
    "--rigid --most 4": "--rigid: conflicts with --most",
    "--failures mtbf=30d --incidents x.csv": "--failures: conflicts with --incidents",
    "--failures mtbf=30d": "--failures: repair is missing",
    "--failures mtfb=30d": "--failures: 'mtfb' is not a part (did you mean 'mtbf'?)",
    "--failures mtbf": "--failures: 'mtbf' has no value",
    "--interference much": "--interference: 'much' is not a number",
    "--interference nod=0.1": "--interference: 'nod' is not a part (did you mean 'node'?)",
    "--interference node=0.1,node=0.2": "--interference: node is given twice",
    "--strategy sprad": "--strategy: 'sprad' is not a strategy (did you mean 'spread'?)",
    "--trace philly-lik:jobs=3": "(did you mean 'philly-like'?)",
    "--trace poisson:job=3": "'job' is not a parameter of poisson (did you mean 'jobs'?)",
    "--free-batch": "--free-batch: needs a T4 workload",
    "--gantt": "--gantt: requires --html, --plots or --out",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_one_line(text: str, tmp_path: Path) -> None:
    policy = () if "--policy" in text else ("--policy", "fifo")
    assert WRONG[text] in refused(tmp_path, *policy, *text.split())


def test_numbers_out_of_range_are_exit_code_2(tmp_path: Path) -> None:
    for wrong in (("--noise", "-1"), ("--most", "0"), ("--seed", "-1"), ("--resize", "never")):
        assert invoke(arguments(tmp_path, *wrong)).exit_code == 2


@pytest.mark.parametrize("command", ["run", "compare", "trace"])
def test_help_has_an_example(command: str) -> None:
    result = invoke(["sim", command, "--help"])
    assert result.exit_code == 0
    assert f"Example: muster sim {command}" in result.stdout


def test_the_page_names_only_options_that_exist() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/simulator.md").read_text(encoding="utf-8")
    group = get_command(app).commands["sim"].commands  # type: ignore[attr-defined]
    known = {
        name
        for command in group.values()
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) - {"--help"}
    assert named <= known, sorted(named - known)
    options = {name for name in known if name.startswith("--")}
    unsaid = {"--cluster", "--trace", "--policies", "--quiet", "--elastic", "--migrate", "--seed"}
    assert options - named <= unsaid | {"--output", "--speeds"}, sorted(options - named)


def test_ctrl_c_is_one_line_and_exit_code_130(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("muster.sim.engine.Cycle.decide", interrupted)
    out = tmp_path / "out"
    done = invoke(arguments(tmp_path, "--policy", "fifo", "--out", out))
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "muster: stopped without a result\n"
    assert not out.exists()
