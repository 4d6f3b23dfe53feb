"""`sbatch`: submits a batch script without asking."""

import os
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from muster.cli.connect import daemon
from muster.cli.exits import SUCCEEDED, code_of
from muster.cli.jobs.submitting.batch_script import batch_record
from muster.cli.jobs.submitting.options import RunRequest
from muster.cli.jobs.submitting.request import completed, free_name
from muster.client.connecting.settings import data_home
from muster.files.errors import InputError
from muster.files.sbatch.directives import BadDirectiveError, Directive, parse_words
from muster.wire.api.records import LIVE, OVER, JobRecord

if TYPE_CHECKING:
    from muster.client import Client, Handle
    from muster.client.handles.sweep_handle import SweepHandle

PAGE = 1000


def run_sbatch(words: Sequence[str]) -> None:
    """Submit a batch script as `sbatch` does: `Submitted batch job 12`."""
    try:
        given, rest = parse_words(words)
        asked = {each.option: each for each in given}
        path = _script(asked.pop("wrap", None), rest)
        options = [str(each) for each in asked.values()]
        job, record = batch_record(path, options, rest[1:])
        complete = completed(record, RunRequest(target=str(path)), os.environ)
    except (InputError, BadDirectiveError) as error:
        for line in getattr(error, "lines", (str(error),)):
            typer.echo(f"sbatch: error: {line}", err=True)
        raise typer.Exit(1) from None
    for note in job.notes if "quiet" not in job.flags else ():
        typer.echo(f"sbatch: warning: {note}", err=True)
    with daemon() as client:
        if "test-only" in job.flags:
            forecast = client.forecast(complete)
            typer.echo(f"sbatch: {forecast.problem or forecast.plan}", err=True)
            raise typer.Exit(int(bool(forecast.problem)))
        complete["name"] = free_name(complete["name"], _names(client))
        handle = client.sweep(complete) if "sweep" in complete else client.submit(complete)
        parsable = "parsable" in job.flags
        typer.echo(str(handle.number) if parsable else f"Submitted batch job {handle.number}")
        if "wait" in job.flags:
            raise typer.Exit(_waited(handle))


def _names(client: "Client") -> set[str]:
    """Return the names of live jobs and arrays."""
    arrays = {each.name for each in client.sweeps() if each.ended is None}
    return arrays | {each.name for each in client.jobs(statuses=LIVE, page=PAGE)}


def _waited(handle: "Handle | SweepHandle") -> int:
    """Wait for the end; return the exit code, of an array that of a member that did not succeed."""
    ended = handle.wait()
    if isinstance(ended, JobRecord):
        return code_of(ended.status)
    bad = [status for status in OVER[1:] if ended.counts.get(status)]
    return code_of(bad[0]) if bad else SUCCEEDED


def _script(wrap: Directive | None, rest: list[str]) -> Path:
    """Return the script to run; a text or standard input is kept in a file, as Slurm keeps a copy."""
    if wrap is not None:
        return _kept(f"#!/bin/sh\n{wrap.value}\n")
    if rest:
        return Path(rest[0])
    text = sys.stdin.read()
    if not text.startswith("#!"):
        raise InputError("This does not look like a batch script: the first line must be #!/bin/sh")
    return _kept(text)


def _kept(text: str) -> Path:
    folder = data_home() / "batch"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"wrap-{uuid.uuid4().hex[:8]}.sh"
    path.write_text(text, encoding="utf-8")
    return path
