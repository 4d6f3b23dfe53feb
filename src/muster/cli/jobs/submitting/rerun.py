"""`muster rerun`: a job again, with changes."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from muster.cli.connect import daemon
from muster.cli.jobs.submitting.field_options import FieldOptions
from muster.cli.jobs.submitting.options import RunRequest, Submission
from muster.cli.jobs.submitting.request import completed, with_words
from muster.cli.jobs.submitting.submit import submit_record
from muster.files.errors import InputError

_SCRIPTS = (".py", ".sh")


def rerun_job(which: str, request: RunRequest, how: Submission, more: FieldOptions) -> int:
    """Submit a job like an earlier one; return the exit code."""
    with daemon() as client:
        record = client.request(which)
    words = [word for word in (request.target, *(request.arguments or ())) if word]
    record["command"] = with_arguments(record, words)
    if request.folder is not None or request.ship is not None:
        record.pop("origin", None)  # it is looked for in another place
    record = completed(record, replace(request, target="", arguments=None), os.environ, more)
    return submit_record(record, how, renames=request.name is None)


def with_arguments(record: dict[str, Any], words: Sequence[str]) -> Any:
    """Return the command with other arguments; without any, as it was."""
    command = record["command"]
    if not words:
        return command
    if record.get("shell"):
        problem = "its command is run by a shell; change it with --set command='...'"
        raise InputError.at(words[0], problem)
    place = next((i for i, word in enumerate(command) if word.endswith(_SCRIPTS)), 0)
    return with_words(command[: place + 1], words)
