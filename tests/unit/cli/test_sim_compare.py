"""`muster sim compare`: the table, what is stored, and going on after an interruption."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from muster.cli.sim import compare as sim_compare
from muster.files.errors import InputError
from muster.policy.registry import POLICIES
from tests.unit.cli.invoke import invoke
from tests.unit.sim.small import cluster_file, trace_file


class Interrupted:
    """A policy during which somebody presses Ctrl-C."""

    name = "interrupted"
    informed = False

    def allocate(self, *_: object) -> object:
        raise KeyboardInterrupt


class Broken(Interrupted):
    """A policy with a fault."""

    name = "broken"

    def allocate(self, *_: object) -> object:
        raise RuntimeError("out of ideas")


@pytest.fixture
def extra() -> Iterator[None]:
    for policy in (Interrupted(), Broken()):
        POLICIES[policy.name] = policy  # type: ignore[assignment]
    yield
    del POLICIES["interrupted"], POLICIES["broken"]


@pytest.fixture(autouse=True)
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take seconds; the test that wants them asks for them."""
    monkeypatch.setattr(sim_compare, "can_draw", lambda: False)


def ran(folder: Path, *more: str | Path) -> Result:
    """Compare on one device: a of 100 s before b of 50 s, no pause."""
    cluster, trace = cluster_file(folder), trace_file(folder, "0,1,100,a", "0,1,50,b")
    given = (
        "--cluster",
        cluster,
        "--trace",
        trace,
        "--pause",
        "0",
        "--oracle",
        "--out",
        folder / "out",
    )
    return invoke(["sim", "compare", *map(str, (*given, *more))])


def stored(folder: Path) -> list[str]:
    """The simulations that are stored, without their hashes."""
    return sorted(path.parent.name.rsplit("-", 1)[0] for path in folder.glob("out/*/result.json"))


def test_policies_stand_side_by_side_with_the_bound(tmp_path: Path) -> None:
    """fifo: (100 + 150) / 2 = 125; srtf: (50 + 150) / 2 = 100, which is the bound; the ratio is 0.8."""
    done = ran(tmp_path, "--policies", "fifo,srtf")
    assert done.exit_code == 0, done.output
    heading, fifo, srtf, *_ = done.stdout.splitlines()
    assert heading.split()[:2] == ["POLICY", "MEAN"]
    assert (fifo.split()[:2], srtf.split()[:2]) == (["fifo", "125"], ["srtf", "100"])
    assert srtf.split()[3:5] == ["1.00", "0.80"]
    assert "Lower bound of the mean: 100" in done.stdout
    assert stored(tmp_path) == ["fifo-0", "srtf-0"]


def test_it_is_data_too(tmp_path: Path) -> None:
    done = ran(tmp_path, "--policies", "fifo,srtf", "-o", "json")
    told = json.loads(done.stdout)
    assert told == json.loads((tmp_path / "out/comparison.json").read_text(encoding="utf-8"))
    assert [row["policy"] for row in told["rows"]] == ["fifo", "srtf"]
    assert set(told["hashes"]) == {"fifo/0", "srtf/0"}


def test_seeds_are_simulated_each_where_they_matter(tmp_path: Path) -> None:
    more = ("--policies", "fifo", "--seeds", "3", "--trace", "poisson:jobs=5,capacity=1")
    done = ran(tmp_path, *more)
    assert stored(tmp_path) == ["fifo-0", "fifo-1", "fifo-2"]
    assert "15 jobs, 3 seeds" in done.stdout


def test_seeds_that_draw_nothing_are_not_counted_twice(tmp_path: Path) -> None:
    done = ran(tmp_path, "--policies", "fifo", "--seeds", "3")
    assert "nothing here depends on the seed: using one" in done.stderr
    assert stored(tmp_path) == ["fifo-0"]


def test_what_is_there_is_not_done_again(tmp_path: Path) -> None:
    assert "already done" not in ran(tmp_path, "--policies", "fifo").stderr
    again = ran(tmp_path, "--policies", "fifo,srtf")
    assert "1 of 2 already done, 1 to do" in again.stderr
    assert "2 of 2 already done, 0 to do" in ran(tmp_path, "--policies", "fifo,srtf").stderr
    fresh = ran(tmp_path, "--policies", "fifo,srtf", "--fresh")
    assert "already done" not in fresh.stderr
    assert fresh.stdout == again.stdout


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, extra: None) -> None:
    stopped = ran(tmp_path, "--policies", "fifo,interrupted,srtf")
    assert stopped.exit_code == 130
    (line,) = stopped.stderr.splitlines()
    assert line == "muster: stopped: 1 of 3 done; repeat the command to continue"
    assert "1 of 2 already done, 1 to do" in ran(tmp_path, "--policies", "fifo,srtf").stderr


def test_a_fault_of_one_policy_keeps_the_others(tmp_path: Path, extra: None) -> None:
    done = ran(tmp_path, "--policies", "broken,fifo")
    assert done.exit_code == 1
    first, second = done.stderr.splitlines()
    assert first.startswith("muster: broken, seed 0 failed: ")
    assert "out of ideas" in first
    assert second == "muster: the others are stored; repeat the command to retry these"
    assert stored(tmp_path) == ["fifo-0"]


def test_without_the_library_that_draws_it_says_how_to_get_it(tmp_path: Path) -> None:
    done = ran(tmp_path, "--policies", "fifo")
    assert "pip install 'musterd[report]'" in done.stderr
    assert not (tmp_path / "out/report.html").exists()


def test_the_report_has_every_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sim_compare, "can_draw", lambda: True)
    more = ("--policies", "fifo,srtf", "--gantt", "--plots", tmp_path / "plots")
    assert ran(tmp_path, *more).exit_code == 0
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3 + 2 * 2, "mean, CDF, load; shares and devices for each policy"
    assert len(list((tmp_path / "plots").glob("*.png"))) == 7


def test_every_column_on_demand(tmp_path: Path) -> None:
    assert "FRAGMENTED" not in ran(tmp_path, "--policies", "fifo").stdout
    assert "FRAGMENTED" in ran(tmp_path, "--policies", "fifo", "--full").stdout


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (("--policies", "fifo,tirasias"), "'tirasias' is not a policy (did you mean 'tiresias'?)"),
        (("--policies", "fifo,fifo"), "'fifo' is named twice"),
        (("--policies", ","), "is empty"),
        (("--policies", "fifo", "--trace", "nowhere.csv"), "nowhere.csv: no such file"),
    ],
)
def test_what_is_wrong_is_one_line_before_anything_is_begun(
    more: tuple[str, ...], problem: str, tmp_path: Path
) -> None:
    done = ran(tmp_path, *more)
    assert isinstance(done.exception, InputError)
    assert problem in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file", encoding="utf-8")
    done = ran(tmp_path, "--policies", "fifo")
    assert isinstance(done.exception, InputError)
    assert str(done.exception).startswith("--out: ")
