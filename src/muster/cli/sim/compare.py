"""`muster sim compare`: several policies on the same jobs, side by side."""

from collections.abc import Sequence
from pathlib import Path

import typer

from muster.cli.exits import INTERRUPTED, OTHER_FAILURE
from muster.cli.render.terminal import complain
from muster.cli.sim.figures import HOW_TO, can_draw, write_page, write_plots
from muster.cli.sim.options import Comparing
from muster.cli.sim.progress import Bars
from muster.files.errors import InputError
from muster.sim.report.compare import Comparison, Digest, compare, digest
from muster.sim.report.files import TableFormat, read_result
from muster.sim.report.table import as_json, text
from muster.sim.result import Result
from muster.sim.scenario.batch import Failure, ResultStore, of_all, run_batch
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, seed_matters


def run_compare(configuration: Configuration, policies: Sequence[str], wanted: Comparing) -> int:
    """Simulate what is missing, compare, write and print; return the exit code."""
    prepare(configuration)  # reports bad input before anything is started
    everything = of_all(configuration, policies, range(_seeds(configuration, policies, wanted.seeds)))
    store = ResultStore(wanted.out, TableFormat(wanted.form), wanted.gantt)
    try:
        return _run(everything, store, wanted)
    except KeyboardInterrupt:
        done = sum(store.has(each) for each in everything)
        complain(f"stopped: {done} of {len(everything)} done; repeat the command to continue")
        return INTERRUPTED


def _run(everything: Sequence[Configuration], store: ResultStore, wanted: Comparing) -> int:
    if wanted.fresh:
        store.drop(everything)
    missing = [each for each in everything if not store.has(each)]
    if len(missing) < len(everything):
        done = len(everything) - len(missing)
        complain(f"{done} of {len(everything)} already done, {len(missing)} to do")
    failures = _simulate(missing, store, wanted, len(everything))
    if failures:
        return _report(failures)
    _show([store.place(each) for each in everything], wanted)
    return 0


def _simulate(
    missing: Sequence[Configuration], store: ResultStore, wanted: Comparing, total: int
) -> list[Failure]:
    try:
        store.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError.at("--out", f"{wanted.out}: {error.strerror}") from None
    with Bars(quiet=wanted.quiet, total=total, done=total - len(missing)) as bars:
        return run_batch(missing, store, bars, wanted.at_a_time)


def _seeds(configuration: Configuration, policies: Sequence[str], asked: int) -> int:
    """The seeds asked for, or 1: equal results would make intervals look too narrow."""
    if asked == 1 or seed_matters(configuration, policies):
        return asked
    complain("nothing here depends on the seed: using one")
    return 1


def _show(folders: Sequence[Path], wanted: Comparing) -> None:
    """Read the results one by one, since there may be many, and compare them."""
    digests: list[Digest] = []
    first: dict[str, Result] = {}
    draws = can_draw() or wanted.html is not None or wanted.plots is not None
    for folder in folders:
        result = read_result(folder)
        digests.append(digest(result))
        if draws:
            first.setdefault(result.policy, result)
    comparison = compare(digests)
    (wanted.out / "comparison.json").write_text(as_json(comparison) + "\n", encoding="utf-8")
    typer.echo(as_json(comparison) if wanted.output == "json" else text(comparison, full=wanted.full))
    _draw(comparison, digests, list(first.values()), wanted)


def _draw(
    comparison: Comparison, digests: Sequence[Digest], results: Sequence[Result], wanted: Comparing
) -> None:
    if not results:
        complain(f"for a report with figures: {HOW_TO}")
        return
    path = wanted.html or wanted.out / "report.html"
    write_page(path, comparison, digests, results)
    complain(f"report: {path}")
    if wanted.plots is not None:
        write_plots(wanted.plots, comparison, digests, results)


def _report(failures: Sequence[Failure]) -> int:
    for each in failures:
        which = f"{each.configuration.policy}, seed {each.configuration.seed}"
        complain(f"{which} failed: {each.why} (details: {each.told})")
    complain("the others are stored; repeat the command to retry these")
    return OTHER_FAILURE
