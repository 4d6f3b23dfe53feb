"""Ask, show progress, print the answer: of `muster whatif` and of dry runs."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from muster.cli.exits import WORSE
from muster.cli.whatif.show import what_if_text

if TYPE_CHECKING:
    from muster.client import Client
    from muster.wire.api.whatif_records import WhatIfReport

Told = Callable[[int, int], None]

QUIET = 5.0
"""s between two lines of progress: who waits longer wonders whether anything happens."""


@contextmanager
def progress(clock: Callable[[], float] = time.monotonic) -> Iterator[Told]:
    """A bar on standard error while worlds are played; a line now and then if that is no terminal."""
    if not sys.stderr.isatty():
        yield _lines(clock)
        return
    columns = (TextColumn("playing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bars = Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
    )
    with bars:
        task = bars.add_task("", total=None)
        yield lambda done, of: bars.update(task, completed=done, total=of)


def _lines(clock: Callable[[], float]) -> Told:
    begun = last = clock()

    def told(done: int, of: int) -> None:
        nonlocal last
        now = clock()
        if now >= last + QUIET:
            last = now
            typer.echo(f"playing {done}/{of} futures, {now - begun:.0f}s so far", err=True)

    return told


def asked(client: "Client", changes: dict[str, Any], worlds: int = 16, seed: int = 0) -> "WhatIfReport":
    """Ask a daemon, with progress."""
    with progress() as told:
        return client.what_if(**changes, worlds=worlds, seed=seed, told=told)


def print_answer(
    report: "WhatIfReport",
    said: str,
    *,
    json: bool = False,
    every: bool = False,
    plot: Path | None = None,
) -> None:
    """Print the answer, and draw it if a picture is wanted."""
    from muster.cli.render.answers import as_json

    typer.echo(as_json(report) if json else what_if_text(report, said, every=every))
    if plot is not None:
        from muster.cli.whatif.plot import write_picture

        write_picture(plot, report, said)


def dry_run(client: "Client", changes: dict[str, Any], said: str) -> None:
    """Print what a change would do, in place of making it."""
    print_answer(asked(client, changes), said)
    typer.echo("\nnothing was changed")


def check(report: "WhatIfReport") -> None:
    """End with the exit code for a change by which some job would end later or never."""
    if report.counts.get("later") or report.counts.get("never"):
        raise typer.Exit(WORSE)
