"""The one place that puts the parts together: the `muster` command."""

import os
import sys

import typer


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    # Before NumPy can be imported, for it reads this once: many threads on small matrices make OpenBLAS
    # a hundred times slower where cores are busy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from muster.cli.main import BAD_INPUT, app

    try:
        app()
    except ValueError as error:
        # Imported only now: the files' machinery would double the time of `--help`.
        from muster.files.errors import InputError

        if not isinstance(error, InputError):
            raise
        typer.echo(f"muster: {error}", err=True)
        sys.exit(BAD_INPUT)
