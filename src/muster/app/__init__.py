"""The one place that puts the parts together: the `muster` command, the daemon, a daemon in process."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from muster.cli.daemon.commands import Listening, UpOptions


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    # Before NumPy can be imported, for it reads this once: many threads on small matrices make OpenBLAS
    # a hundred times slower where cores are busy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from muster.cli.main import BAD_INPUT, app

    try:
        app(obj=up)
    except ValueError as error:
        # Imported only now: the files' machinery would double the time of `--help`.
        from muster.files.errors import InputError

        if not isinstance(error, InputError):
            raise
        for line in getattr(error, "lines", (str(error),)):
            typer.echo(f"muster: {line}", err=True)
        sys.exit(BAD_INPUT)


def up(options: "UpOptions", ready: "Callable[[Listening], None]") -> None:
    """Run a daemon until it is told to stop."""
    from muster.app.up import run

    run(options, ready)
