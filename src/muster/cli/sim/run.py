"""`muster sim run`: one simulation and its figures."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from muster.cli.parse import writing
from muster.cli.render.table import table
from muster.cli.sim.figures import write_page, write_plots
from muster.cli.sim.options import RunOutputs
from muster.cli.sim.progress import Bars
from muster.files.errors import InputError
from muster.sim.report.bounds import CompletionBounds, bounds
from muster.sim.report.compare import compare, digest
from muster.sim.report.files import TableFormat, write_result
from muster.sim.report.metrics import RunSummary, summary
from muster.sim.result import Result
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, run_prepared


def run_one(configuration: Configuration, wanted: RunOutputs) -> str:
    """Simulate, write the files asked for, and return the figures."""
    if wanted.gantt and not (wanted.out or wanted.html or wanted.plots):
        raise InputError.at("--gantt", "requires --html, --plots or --out")
    prepared = prepare(configuration)
    with Bars(quiet=wanted.quiet) as bars:
        bars.began(configuration, prepared.jobs.survey.jobs)
        result = run_prepared(
            prepared, lambda done, _: bars.moved(configuration, done), stints=wanted.gantt
        )
    _write(result, wanted)
    return _as_json(result) if wanted.output == "json" else "\n".join(_as_text(result))


def _write(result: Result, wanted: RunOutputs) -> None:
    if wanted.out is not None:
        with writing(wanted.out):
            write_result(result, wanted.out, TableFormat(wanted.form))
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
            f"Lower bound of the mean: {lowest.best:,.0f} s (each job alone {lowest.alone:,.0f} s, the "
            f"cluster as one machine {lowest.machine:,.0f} s, combined {lowest.mixed:,.0f} s){above}."
        )
    for note in result.notes:
        yield f"Note: {note}."
    yield f"{result.cycles:,} cycles, {result.events:,} events, {result.cpu:.1f} s of CPU time."


def _counted(figures: RunSummary) -> str:
    left = {"refused": figures.refused, "unfinished": figures.unfinished}
    others = "".join(f", {count:,} {name}" for name, count in left.items() if count)
    return f"{figures.done:,} of {figures.jobs:,} jobs done{others}"


def _rows(figures: RunSummary) -> Iterator[tuple[str, str, str]]:
    yield "mean", _cell(figures.mean, ",.0f", " s"), "from submission to end"
    yield "median", _cell(figures.median, ",.0f", " s"), ""
    yield "p95", _cell(figures.p95, ",.0f", " s"), ""
    yield "p99", _cell(figures.p99, ",.0f", " s"), ""
    yield "makespan", _cell(figures.makespan, ",.0f", " s"), "from first submission to last end"
    yield "wait", _cell(figures.wait, ",.0f", " s"), "mean, until the first start"
    yield (
        "worst rho",
        _cell(figures.rho_worst, ",.2f"),
        "time / time with a fair share; above 1 is unfair",
    )
    yield "unfair", _cell(figures.rho_unfair, ".1%"), "of the jobs have a rho above 1.05"
    yield "used", _cell(figures.utilisation, ".1%"), "of the devices"
    yield "fragmented", _cell(figures.fragmentation, ".1%"), "of the free devices, on partly used nodes"
    changes = f"{figures.preemptions:,} preemptions, {figures.migrations:,} migrations"
    yield "resizes", f"{figures.resizes:,}", changes
    yield "lost", f"{figures.lost:,.1f} h", f"device-hours in pauses and {figures.failures:,} failures"


def _cell(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"
