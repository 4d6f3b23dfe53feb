"""`muster snapshot`."""

from pathlib import Path

import typer

from muster.cli.connect import daemon
from muster.cli.parse import writing
from muster.cli.render.terminal import hint


def write_snapshot(path: Path) -> None:
    """Write the daemon's snapshot to a file, or to standard output for `-`."""
    with daemon() as client:
        body = client.snapshot()
    if str(path) == "-":
        typer.echo(body)
        return
    with writing(path):
        path.write_bytes(body)
    hint(f"decide on it again: muster play {path}")
