"""`--watch`: the same answer again and again."""

import time
from collections.abc import Callable
from typing import Any

import typer

from muster.cli.choices import ListFormat
from muster.cli.render.answers import as_json
from muster.cli.render.terminal import on_terminal

INTERVAL = 2.0
"""s between two requests: what users of `watch` and `kubectl get -w` are used to."""

_HOME, _CLEAR = "\x1b[H", "\x1b[2J"


def shown(make: Callable[[], str], *, watch: bool, note: Callable[[], None] = lambda: None) -> None:
    """Print the answer and the note below it; with `watch`, print it again when it has changed.

    A terminal is cleared first. Ctrl-C is the normal way to end it, so the exit code is 0.
    """
    if not watch:
        typer.echo(make())
        note()
        return
    before = None
    try:
        while True:
            answer = make()
            if answer != before:
                typer.echo(f"{_CLEAR}{_HOME}{answer}" if on_terminal() else answer)
                before = answer
            time.sleep(INTERVAL)
    except KeyboardInterrupt:
        raise typer.Exit from None


def show_list(
    fetch: Callable[[], Any], table: Callable[..., str], form: ListFormat, *, watch: bool
) -> None:
    """Print records as a table, wide or not, or as JSON."""

    def answer() -> str:
        return as_json(fetch()) if form == "json" else table(fetch(), wide=form == "wide")

    shown(answer, watch=watch)
