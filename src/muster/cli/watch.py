"""The same answer again and again, for as long as somebody watches."""

import time
from collections.abc import Callable

import typer

from muster.cli.render.terminal import on_terminal

INTERVAL = 2.0
"""Seconds between two looks: what `watch` and `kubectl get -w` users are used to."""

_HOME, _CLEAR = "\x1b[H", "\x1b[2J"


def shown(make: Callable[[], str], *, watch: bool, note: Callable[[], None] = lambda: None) -> None:
    """Print the answer and the note under it; watching, print it again when it has changed.

    On a terminal it takes the last one's place. Ctrl-C is the way to end it, so it is no failure.
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
