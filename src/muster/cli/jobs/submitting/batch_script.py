"""`muster run job.sbatch`: a batch script of Slurm's as a job. Quick to import."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.files.errors import InputError

if TYPE_CHECKING:
    from muster.cli.jobs.submitting.options import RunRequest
    from muster.files.sbatch.mapping import BatchJob

_SUFFIXES = (".sbatch", ".slurm")
_SHELL_SUFFIXES = (".sh", ".bash", "")
"""Of scripts that are Slurm's only if they have directives."""
_BEGINNING = 65536
"""Bytes in which a script has its directives."""


def is_batch(target: str) -> bool:
    """Return whether a target is a batch script: by its name, or by its `#SBATCH` lines."""
    path = Path(target)
    if path.suffix in _SUFFIXES:
        return True
    if path.suffix not in _SHELL_SUFFIXES or not path.is_file():
        return False
    with path.open("rb") as file:
        begins = file.read(_BEGINNING)
    if not begins.startswith(b"#!") or b"\n#SBATCH" not in begins:
        return False
    from muster.files.sbatch.directives import has_directives  # seldom needed

    return has_directives(begins.decode("utf-8", "replace"))


def from_batch(request: "RunRequest") -> dict[str, Any]:
    """Return the job of a batch script, after printing what of it is left out."""
    import typer

    job, record = batch_record(Path(request.target), (), request.arguments or ())
    for note in job.notes:
        typer.echo(f"note: {note}", err=True)
    if request.devices is not None:  # the command line says how large it is
        record.pop("roles")
        record.pop("locality", None)
    return record


def batch_record(
    path: Path, words: Sequence[str], arguments: Sequence[str]
) -> "tuple[BatchJob, dict[str, Any]]":
    """Return a batch script, and the job that runs it; `words` are options of `sbatch`."""
    from muster.files.sbatch.mapping import read_batch

    try:
        job = read_batch(path, words)
    except OSError as error:
        raise InputError.at(str(path), error.strerror or str(error)) from None
    files = ["--output", job.output] if job.output else []
    files += ["--error", job.error] if job.error else []
    files += ["--truncate"] if job.truncate else []
    command = [sys.executable, "-m", "muster.slurm.batch", *files, str(path.absolute()), *arguments]
    return job, {**job.record, "command": command}
