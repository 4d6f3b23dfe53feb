"""`muster sim compare`: several policies on the same jobs, stored one by one, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from muster.cli.exits import INTERRUPTED, OTHER_FAILURE
from muster.cli.sim.figures import HOW_TO, can_draw, write_page, write_plots
from muster.cli.sim.progress import Bars
from muster.files.errors import InputError
from muster.sim.report.compare import Comparison, Digest, compare, digest
from muster.sim.report.files import TableFormat, read_result
from muster.sim.report.table import as_json, text
from muster.sim.result import Result
from muster.sim.scenario.batch import Failure, ResultStore, of_all, run_batch
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, seed_matters


@dataclass(frozen=True, slots=True)
class Comparing:
    """What is compared, and what is to come out of it."""

    policies: tuple[str, ...]
    seeds: int
    at_a_time: int
    out: Path
    fresh: bool
    form: str
    html: Path | None
    plots: Path | None
    gantt: bool
    full: bool
    as_json: bool
    quiet: bool


def run_compare(configuration: Configuration, wanted: Comparing) -> int:
    """Simulate what is missing, compare, write and print; the exit code."""
    prepare(configuration)  # bad input costs one line before anything is begun
    everything = of_all(configuration, wanted.policies, range(_seeds(configuration, wanted)))
    store = ResultStore(wanted.out, TableFormat(wanted.form), wanted.gantt)
    try:
        return _run(everything, store, wanted)
    except KeyboardInterrupt:
        done = sum(store.has(each) for each in everything)
        _say(f"stopped: {done} of {len(everything)} done; the same command goes on with the rest")
        return INTERRUPTED


def _run(everything: Sequence[Configuration], store: ResultStore, wanted: Comparing) -> int:
    if wanted.fresh:
        store.drop(everything)
    missing = [each for each in everything if not store.has(each)]
    if len(missing) < len(everything):
        done = len(everything) - len(missing)
        _say(f"{done} of {len(everything)} done before, {len(missing)} to do")
    failures = _simulate(missing, store, wanted, len(everything))
    if failures:
        return _tell(failures)
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


def _seeds(configuration: Configuration, wanted: Comparing) -> int:
    """As many as were asked for: equal results would make intervals look narrower than they are."""
    if wanted.seeds == 1 or seed_matters(configuration, wanted.policies):
        return wanted.seeds
    _say("nothing here is drawn by the seed: one is enough")
    return 1


def _show(folders: Sequence[Path], wanted: Comparing) -> None:
    """Read the results one by one, for there may be many, and hold them against each other."""
    digests: list[Digest] = []
    first: dict[str, Result] = {}
    draws = can_draw() or wanted.html is not None or wanted.plots is not None
    for folder in folders:
        result = read_result(folder)
        digests.append(digest(result))
        if draws:
            first.setdefault(result.policy, result)
    comparison = compare(digests, wanted.policies[0])
    (wanted.out / "comparison.json").write_text(as_json(comparison) + "\n", encoding="utf-8")
    typer.echo(as_json(comparison) if wanted.as_json else text(comparison, full=wanted.full))
    _draw(comparison, digests, list(first.values()), wanted)


def _draw(
    comparison: Comparison, digests: Sequence[Digest], results: Sequence[Result], wanted: Comparing
) -> None:
    if not results:
        _say(f"for a report with figures: {HOW_TO}")
        return
    path = wanted.html or wanted.out / "report.html"
    write_page(path, comparison, digests, results)
    _say(f"report: {path}")
    if wanted.plots is not None:
        write_plots(wanted.plots, comparison, digests, results)


def _tell(failures: Sequence[Failure]) -> int:
    for each in failures:
        which = f"{each.configuration.policy}, seed {each.configuration.seed}"
        _say(f"{which} failed: {each.why} (in full: {each.told})")
    _say("the others are stored; the same command tries these again")
    return OTHER_FAILURE


def _say(line: str) -> None:
    typer.echo(f"muster: {line}", err=True)
