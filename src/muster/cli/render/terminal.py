"""What depends on whether somebody looks: colours, hints and questions."""

import os
import sys

import typer

_COLOURS = {
    "running": "green",
    "succeeded": "green",
    "up": "green",
    "waiting": "yellow",
    "draining": "yellow",
    "failed": "red",
    "lost": "red",
    "cancelled": "bright_black",
}
"""Of a status or a state; whatever is changing is cyan."""


def on_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def can_answer() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def coloured() -> bool:
    """Whether to use colours: on a terminal, unless `NO_COLOR` is set (no-color.org)."""
    return on_terminal() and not os.environ.get("NO_COLOR")


def painted(status: str) -> str:
    """A status or a state in its colour."""
    return typer.style(status, fg=_COLOURS.get(status, "cyan")) if coloured() else status


def bold(text: str) -> str:
    """A heading, to be seen."""
    return typer.style(text, bold=True) if coloured() else text


def hint(text: str) -> None:
    """One line on what to type next, for a person only."""
    if on_terminal():
        typer.echo(typer.style(text, dim=True) if coloured() else text)


def complain(text: str) -> None:
    """One line on standard error."""
    typer.echo(f"muster: {text}", err=True)


def agreed(question: str, *, yes: bool) -> bool:
    """Whether to go on: asked where somebody can answer, taken for granted in scripts."""
    return yes or not can_answer() or typer.confirm(question, err=True)
