"""What depends on a terminal: colours, hints and questions."""

import os
import shutil
import sys

import typer

from muster.cli.exits import OTHER_FAILURE

_COLOURS = {
    "running": "green",
    "succeeded": "green",
    "up": "green",
    "waiting": "yellow",
    "draining": "yellow",
    "failed": "red",
    "lost": "red",
    "cancelled": "bright_black",
    "pruned": "bright_black",
    "skipped": "bright_black",
}
"""By status or state; any other is cyan."""


def on_terminal() -> bool:
    return sys.stdout.isatty()


def width() -> int | None:
    """Columns of the terminal; None where there is none."""
    return shutil.get_terminal_size().columns if on_terminal() else None


def can_answer() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def coloured() -> bool:
    """Whether to use colours: on a terminal, unless `NO_COLOR` is set (no-color.org)."""
    return on_terminal() and not os.environ.get("NO_COLOR")


def painted(status: str) -> str:
    return typer.style(status, fg=_COLOURS.get(status, "cyan")) if coloured() else status


def bold(text: str) -> str:
    return typer.style(text, bold=True) if coloured() else text


def hint(text: str) -> None:
    """Print what to type next, on a terminal only."""
    if on_terminal():
        typer.echo(typer.style(text, dim=True) if coloured() else text)


def complain(text: str) -> None:
    """Print one line to standard error."""
    typer.echo(f"muster: {text}", err=True)


def agreed(question: str, *, yes: bool) -> bool:
    """Ask where somebody can answer; scripts are taken to agree."""
    return yes or not can_answer() or typer.confirm(question, err=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask, and end the command if the answer is no."""
    if not agreed(question, yes=yes):
        raise typer.Exit(OTHER_FAILURE)
