"""The HTML report and its figures, of one simulation or several."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from muster.cli.parse import writing
from muster.sim.report.compare import Comparison, Digest
from muster.sim.result import Result

HOW_TO = "pip install 'musterd[report]'"


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def write_page(
    path: Path, comparison: Comparison, digests: Sequence[Digest], results: Sequence[Result]
) -> None:
    from muster.sim.report.html import illustrations, page

    title = " / ".join(row.policy for row in comparison.rows)
    text = page(comparison, illustrations(digests, comparison, results), title)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_plots(
    folder: Path, comparison: Comparison, digests: Sequence[Digest], results: Sequence[Result]
) -> None:
    from muster.sim.report.gantt import gantt
    from muster.sim.report.holders import By, applications
    from muster.sim.report.plots import completion_cdf, load_over_time, mean_bars, shares_over_time
    from muster.sim.report.style import save_png

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    save_png(mean_bars(comparison), folder / "mean.png")
    save_png(completion_cdf(digests), folder / "cdf.png")
    sampled = [result for result in results if result.samples]
    if sampled:
        save_png(load_over_time(sampled), folder / "load.png")
    for result in (result for result in results if result.stints):
        by = By.APPLICATION if applications(result) > 1 else By.POOL
        save_png(shares_over_time(result, by), folder / f"shares-{result.policy}.png")
        save_png(gantt(result), folder / f"gantt-{result.policy}.png")
