"""Files and folders as a stream: packed at one end of a visit, unpacked at the other."""

import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

Tell = Callable[[str], None]
"""Called with what could not be copied, and why."""


class CopyError(Exception):
    """Nothing can be copied; the message says why."""


def pack(source: Path, out: IO[bytes], tell: Tell) -> None:
    """Write a file or a folder, under its own name. Links are copied as links."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in _all_in(source):
            name = str(Path(source.name) / path.relative_to(source))
            try:
                tar.add(path, name, recursive=False)
            except OSError as problem:
                tell(f"{name}: {problem.strerror or problem}")


def means_folder(path: str) -> bool:
    """Whether a path was written as a folder's: `data/`."""
    return path.endswith("/")


def unpack(source: IO[bytes], target: Path, tell: Tell, *, into: bool = False) -> None:
    """Read what `pack` wrote: into the target if it is a folder, or `into` says that it shall be one;
    else under that name."""
    if into and target.parent.is_dir() and not target.exists():
        target.mkdir()
    if into and target.exists() and not target.is_dir():
        raise CopyError(f"{target} is a file, not a folder")
    parent, name = (target, "") if target.is_dir() else (target.parent, target.name)
    if not parent.is_dir():
        raise CopyError(f"no folder {parent}; create it first")
    with tarfile.open(fileobj=source, mode="r|") as tar:
        for member in tar:
            member = _renamed(member, name)
            try:
                # Its filter refuses what would leave the folder: names, links, devices.
                tar.extract(member, parent, filter="data")
            except tarfile.FilterError as problem:
                tell(f"{member.name}: skipped: {_words(problem)}")
            except OSError as problem:
                tell(f"{member.name}: {problem.strerror or problem}")
    while source.read(tarfile.RECORDSIZE):
        pass  # padding behind the end mark: whoever writes it must not find the stream closed


def _all_in(source: Path) -> Iterator[Path]:
    """Yield a path and, of a folder, all below it."""
    yield source
    if source.is_symlink() or not source.is_dir():
        return
    for folder, folders, files in os.walk(source):
        folders.sort()
        yield from (Path(folder, name) for name in sorted([*folders, *files]))


def _renamed(member: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """Return a member with another first part of its name, if there is one to give."""
    if not name:
        return member
    _, slash, rest = member.name.partition("/")
    return member.replace(name=f"{name}{slash}{rest}", deep=False)


def _words(problem: tarfile.FilterError) -> str:
    if isinstance(problem, tarfile.LinkOutsideDestinationError | tarfile.AbsoluteLinkError):
        return "a link that leads out of the folder"
    return "it would leave the folder, or is no plain file"
