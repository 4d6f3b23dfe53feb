"""The one place that puts the parts together: the `muster` command."""

import sys

import typer


def main() -> None:
    """Run the command line; bad input is one line on standard error and exit code 2."""
    from muster.cli.main import BAD_INPUT, app
    from muster.files.errors import InputError

    try:
        app()
    except InputError as error:
        typer.echo(f"muster: {error}", err=True)
        sys.exit(BAD_INPUT)
