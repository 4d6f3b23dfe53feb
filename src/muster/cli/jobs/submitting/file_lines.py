"""Faults that a daemon finds in a job file, with their lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from muster.cli.render.terminal import complain
from muster.client import ClientError
from muster.files.errors import InputError, dotted


@contextmanager
def faults_by_line(
    file: Path | None, failure: int, *, prefix: str = "", job: str = ""
) -> Iterator[None]:
    """Print a daemon's faults of a file as `file:line: field: problem`, and end the command.

    `prefix`: begins the names of its jobs, but not their keys in the file. `job`: the key of the job
    that they are about, if the file has several.
    """
    try:
        yield
    except ClientError as error:
        if file is None or not error.errors:
            raise
        from muster.files.source.yaml_source import read_source  # only for a faulty file

        lines = {dotted(loc): line for loc, line in read_source(file, "env").lines.items()}
        for fault in error.errors:
            field = fault.field.replace(f"jobs.{prefix}-", "jobs.", 1) if prefix else fault.field
            field = f"jobs.{job}.{field}" if job else field
            complain(
                str(InputError.at(str(file), fault.problem, line=_line(field, lines), field=field))
            )
        raise typer.Exit(failure) from None


def _line(field: str, lines: dict[str, int]) -> int | None:
    """Return the line of a field, or of the nearest one around it; None: none is in the file."""
    while field and field not in lines:
        field = field.rpartition(".")[0]
    return lines.get(field) if field else None
