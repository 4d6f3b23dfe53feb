"""Plots and the page: there, whole, and safe from what is in names."""

import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from muster.files.errors import InputError
from muster.sim.report.compare import compare, digest
from muster.sim.report.gantt import gantt
from muster.sim.report.holders import By
from muster.sim.report.html import illustrations, page
from muster.sim.report.plots import completion_cdf, load_over_time, mean_bars, shares_over_time
from muster.sim.report.style import OWN, PALETTE, policy_colours, save_png, svg, time_unit
from muster.sim.result import Fate, Result, Stint
from tests.unit.sim.report.made_up import made_up, record, result, sample

pytest.importorskip("matplotlib")

SIGNATURE = b"\x89PNG\r\n\x1a\n"
EVIL = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def both() -> list[Result]:
    return [made_up("fifo", 1, jobs=40), made_up("muster", 1, jobs=40, shortest=True)]


PLOTS: dict[str, Callable[[list[Result]], Any]] = {
    "cdf": lambda results: completion_cdf([digest(r) for r in results]),
    "means": lambda results: mean_bars(compare([digest(r) for r in results], count=100)),
    "load": load_over_time,
    "shares": lambda results: shares_over_time(results[0]),
    "shares by job": lambda results: shares_over_time(results[0], By.JOB, top=3),
    "gantt": lambda results: gantt(results[0]),
    "gantt by job": lambda results: gantt(results[0], By.JOB, nodes=4),
    "gantt by pool": lambda results: gantt(results[0], By.POOL),
}


def shown(drawing: Any) -> str:
    """The text of a figure, which is text in its SVG."""
    return " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg(drawing, "x")))


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_a_png_of_some_size(name: str, both: list[Result], tmp_path: Path) -> None:
    save_png(PLOTS[name](both), tmp_path / "plot.png")
    data = (tmp_path / "plot.png").read_bytes()
    assert data.startswith(SIGNATURE)
    assert len(data) > 15_000


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_of_next_to_nothing_is_a_plot_still(name: str, tmp_path: Path) -> None:
    left = record(started=None, ended=None, fate=Fate.UNFINISHED)
    save_png(PLOTS[name]([result(left)]), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(SIGNATURE)


def test_equal_results_are_equal_pictures(both: list[Result]) -> None:
    assert svg(gantt(both[0]), "x") == svg(gantt(both[0]), "x")


def test_names_are_shown_as_they_are_or_with_question_marks() -> None:
    names = ["_hidden", "$x_1^{", "漢字", "tab\there", "a" * 60, EVIL]
    jobs = [record(name, application=name, ended=100.0) for name in names]
    stints = [Stint(name, f"node{i}", 1, 0.0, 100.0) for i, name in enumerate(names)]
    odd = result(*jobs, samples=(sample(0.0, 6, 6),), stints=tuple(stints), policy="漢$")
    texts = shown(gantt(odd)) + shown(shares_over_time(odd)) + shown(gantt(odd, By.JOB))
    texts += shown(completion_cdf([digest(odd)])) + shown(load_over_time([odd]))
    assert " _hidden" in texts
    assert "$x_1^{" in texts
    assert "??" in texts
    assert "tab?here" in texts
    assert "a" * 27 + "…" in texts


def test_a_gantt_chart_says_how_many_nodes_it_leaves_out(both: list[Result]) -> None:
    texts = shown(gantt(both[0], nodes=3))
    assert "3 of 16 nodes" in texts
    # By number: node10 does not come before node2.
    assert "node2" in texts
    assert "node10" not in texts


def test_the_bound_is_in_the_picture_of_the_means(both: list[Result]) -> None:
    found = compare([digest(r) for r in both], count=100)
    assert found.bounds is not None
    assert f"lower bound {found.bounds.best:,.0f} s" in shown(mean_bars(found))


def test_a_policy_keeps_its_colour() -> None:
    colours = policy_colours(["fifo", OWN, "srtf"])
    assert colours == {"fifo": PALETTE[1], OWN: PALETTE[0], "srtf": PALETTE[2]}
    assert list(colours) == ["fifo", OWN, "srtf"]


@pytest.mark.parametrize(
    ("span", "unit"), [(60.0, "s"), (7200.0, "min"), (86400.0, "h"), (30 * 86400.0, "days")]
)
def test_time_is_in_a_unit_that_can_be_read(span: float, unit: str) -> None:
    assert time_unit(span)[1] == unit


def test_without_matplotlib_a_plot_names_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"a plot needs matplotlib: pip install 'musterd\[report\]'"):
        load_over_time([])


class Seen(HTMLParser):
    """Tags, ids and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "srcset", "data", "action") and value:
                self.fetched.append(value)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def whole(both: list[Result]) -> str:
    """A page whose every name is an attack."""
    jobs = [record(EVIL + str(i), application=EVIL + "app" * i, ended=50.0) for i in range(2)]
    stints = [Stint(job.name, EVIL, 1 << i, 0.0, 50.0) for i, job in enumerate(jobs)]
    evil = result(
        *jobs, samples=(sample(0.0, 2, 2),), stints=tuple(stints), policy=EVIL, hash=EVIL,
        configuration={EVIL: "</pre><img src=x>"}, notes=(EVIL,),
    )  # fmt: skip
    digests = [digest(evil)]
    comparison = compare(digests, count=50)
    return page(comparison, illustrations(digests, comparison, [evil]), EVIL)


def test_the_page_runs_no_script_but_its_own(whole: str) -> None:
    assert Seen(whole).tags.count("script") == 1
    assert "<script>alert" not in whole
    assert "<img" not in whole


def test_the_page_asks_for_nothing_from_outside(whole: str) -> None:
    assert all(address.startswith(("#", "data:")) for address in Seen(whole).fetched)
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", whole)


def test_the_page_is_well_formed(whole: str) -> None:
    seen = Seen(whole)
    assert not seen.open
    assert len(seen.ids) == len(set(seen.ids))
    assert seen.tags.count("svg") == 5


def test_every_reference_inside_a_figure_leads_somewhere(whole: str) -> None:
    targets = set(re.findall(r"url\(#([^)]+)\)", whole)) | {f[1:] for f in Seen(whole).fetched}
    assert targets
    assert targets <= set(Seen(whole).ids)


def test_the_page_explains_each_column_and_carries_the_hash(both: list[Result]) -> None:
    comparison = compare([digest(r) for r in both], count=50)
    text = page(comparison, [])
    assert "Mean completion time, from submission to end, in s." in text
    assert "fifo-1" in text
    assert "made up" in text
    assert "95th percentile of the completion time, in s." in text
