"""`muster sim run`: one simulation and its figures."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muster.cli.render.table import table
from muster.cli.sim.figures import write_page, write_plots
from muster.cli.sim.progress import Bars
from muster.files.errors import InputError
from muster.sim.report.bounds import CompletionBounds, bounds
from muster.sim.report.compare import compare, digest
from muster.sim.report.files import TableFormat, write_result
from muster.sim.report.metrics import RunSummary, summary
from muster.sim.result import Result
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, run_prepared


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to come out of a run."""

    out: Path | None
    form: str
    html: Path | None
    plots: Path | None
    gantt: bool
    as_json: bool
    quiet: bool


def run_one(configuration: Configuration, wanted: Wanted) -> str:
    """Simulate, write what is to be written, and say what came of it."""
    if wanted.gantt and not (wanted.out or wanted.html or wanted.plots):
        raise InputError.at("--gantt", "is of use only with --html, --plots or --out")
    prepared = prepare(configuration)
    with Bars(quiet=wanted.quiet) as bars:
        bars.began(configuration, prepared.jobs.survey.jobs)
        result = run_prepared(
            prepared, lambda done, _: bars.moved(configuration, done), stints=wanted.gantt
        )
    _write(result, wanted)
    return _as_json(result) if wanted.as_json else "\n".join(_as_text(result))


def _write(result: Result, wanted: Wanted) -> None:
    if wanted.out is not None:
        try:
            write_result(result, wanted.out, TableFormat(wanted.form))
        except OSError as error:
            raise InputError.at(str(wanted.out), error.strerror or str(error)) from None
    if wanted.html is None and wanted.plots is None:
        return
    digests = [digest(result)]
    comparison = compare(digests)
    if wanted.html is not None:
        write_page(wanted.html, comparison, digests, [result])
    if wanted.plots is not None:
        write_plots(wanted.plots, comparison, digests, [result])


def _as_json(result: Result) -> str:
    lowest, figures = bounds(result), summary(result)
    answer: dict[str, Any] = {
        "policy": result.policy,
        "seed": result.seed,
        "hash": result.hash,
        "summary": asdict(figures),
        "bounds": None if lowest is None else {**asdict(lowest), "best": lowest.best},
        "to_bound": _to_bound(figures, lowest),
        "cycles": result.cycles,
        "events": result.events,
        "cpu": result.cpu,
        "notes": list(result.notes),
        "configuration": dict(result.configuration),
    }
    return json.dumps(answer, indent=2)


def _to_bound(figures: RunSummary, lowest: CompletionBounds | None) -> float | None:
    if figures.mean is None or lowest is None or lowest.best <= 0:
        return None
    return figures.mean / lowest.best


def _as_text(result: Result) -> Iterator[str]:
    figures, lowest = summary(result), bounds(result)
    yield f"{result.policy}, seed {result.seed}, {result.hash}: {_counted(figures)}"
    yield ""
    yield table(("FIGURE", "VALUE", ""), list(_rows(figures)), left=(0, 2))
    if lowest is not None:
        ratio = _to_bound(figures, lowest)
        above = f"; the mean is {ratio:.2f} times that" if ratio is not None else ""
        yield ""
        yield (
            f"No mean can be below {lowest.best:,.0f} s: jobs alone {lowest.alone:,.0f} s, the cluster "
            f"as one machine {lowest.machine:,.0f} s, both at once {lowest.mixed:,.0f} s{above}."
        )
    for note in result.notes:
        yield f"Note: {note}."
    yield f"{result.cycles:,} cycles, {result.events:,} events, {result.cpu:.1f} s of processor time."


def _counted(figures: RunSummary) -> str:
    left = {"refused": figures.refused, "unfinished": figures.unfinished}
    others = "".join(f", {count:,} {name}" for name, count in left.items() if count)
    return f"{figures.done:,} of {figures.jobs:,} jobs done{others}"


def _rows(figures: RunSummary) -> Iterator[tuple[str, str, str]]:
    yield "mean", _seconds(figures.mean), "from submission to the end"
    yield "median", _seconds(figures.median), ""
    yield "p95", _seconds(figures.p95), ""
    yield "p99", _seconds(figures.p99), ""
    yield "makespan", _seconds(figures.makespan), "from the first submission to the last end"
    yield "wait", _seconds(figures.wait), "mean, to the first start"
    yield "worst rho", _number(figures.rho_worst), "time / time with a fair share: above 1 is unfair"
    yield "unfair", _part(figures.rho_unfair), "of the jobs have a rho above 1.05"
    yield "used", _part(figures.utilisation), "of the devices"
    yield "fragmented", _part(figures.fragmentation), "of the free devices, on partly used nodes"
    changes = f"{figures.preemptions:,} preemptions, {figures.migrations:,} migrations"
    yield "resizes", f"{figures.resizes:,}", changes
    yield "lost", f"{figures.lost:,.1f} h", f"device-hours in pauses and {figures.failures:,} failures"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} s"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
