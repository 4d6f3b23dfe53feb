"""`muster cp`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from muster.cli.exits import OTHER_FAILURE
from muster.cli.render.terminal import complain
from muster.files.errors import InputError

if TYPE_CHECKING:
    from muster.client import Client

_USER = r"(?:[A-Za-z0-9_][A-Za-z0-9._@+-]*/)?"
_REMOTE = re.compile(rf"(?P<job>{_USER}[A-Za-z0-9][A-Za-z0-9._-]*):(?P<path>.*)")


def copy(client: "Client", source: str, target: str, rank: int | None) -> int:
    """Copy between a job and this machine; return the exit code."""
    there, here = _REMOTE.fullmatch(source), _REMOTE.fullmatch(target)
    if (there is None) == (here is None):
        raise InputError.at("cp", "one of the two must be a job's, such as 12:results, and one a path")
    if there is not None:
        missed = client.copy_from(there["job"], there["path"], target, rank=rank)
    else:
        assert here is not None
        if not Path(source).exists():
            raise InputError.at("cp", f"no file {source}")
        missed = client.copy_to(here["job"], source, here["path"], rank=rank)
    for each in missed:
        complain(each)
    return OTHER_FAILURE if missed else 0
