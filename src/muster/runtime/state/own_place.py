"""Where a job's checkpoints go: below what the daemon gave it, or where its script says."""

import os
from contextlib import suppress
from pathlib import Path

from muster.runtime.errors import BadTrainingError
from muster.runtime.state.owner import make_private
from muster.runtime.state.places import is_url


def path_or_url(text: str) -> Path | str:
    """Return a URL as it is, a path as an absolute one."""
    return text if is_url(text) else Path(text).absolute()


def own_place(folder: str, own: str) -> Path | str:
    """Return where checkpoints go: a relative folder is below the job's own, if it has one."""
    if is_url(folder) or not own or Path(folder).is_absolute():
        return path_or_url(folder)
    inside = os.path.normpath(folder)
    if Path(inside).parts[:1] == (os.pardir,):
        raise BadTrainingError(
            f"checkpoint folder {folder!r} is outside the job's own: give an absolute path"
        )
    if is_url(own):
        return own if inside == os.curdir else f"{own.rstrip('/')}/{inside}"
    return Path(own) / inside


def leave_link(where: str, own: str) -> None:
    """Leave a link to a folder elsewhere in the job's own, so that `--resume-from JOB` finds it."""
    folder, mine = Path(where), Path(own)
    if is_url(where) or is_url(own) or folder == mine or mine in folder.parents:
        return
    link = mine / "elsewhere"
    with suppress(OSError):
        make_private(mine)
        link.unlink(missing_ok=True)
        link.symlink_to(folder, target_is_directory=True)
