"""`muster snapshot`."""

from pathlib import Path

import typer

from muster.cli.connect import daemon
from muster.cli.render.terminal import hint
from muster.files.errors import InputError


def write_snapshot(path: Path) -> None:
    """Write the daemon's snapshot to a file, or to standard output for `-`."""
    with daemon() as client:
        body = client.snapshot()
    if str(path) == "-":
        typer.echo(body)
        return
    try:
        path.write_bytes(body)
    except OSError as error:
        raise InputError.at(str(path), error.strerror or str(error)) from None
    hint(f"decide on it again: muster play {path}")
