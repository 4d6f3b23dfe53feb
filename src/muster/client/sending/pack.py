"""Packs the folder that a job ships: the same content gives the same bytes, wherever it is packed."""

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from muster.client.errors import ClientError, FieldFault
from muster.client.sending.ignore import IgnoreRules, rules_above
from muster.client.sending.ship import DIGEST
from muster.wire.api.records import SHIP_ENTRIES, SHIP_LIMIT

_LEVEL = 6
_NAMED = 3
"""Of the largest entries, in an error."""
_TIME = 315_532_800
"""1980, the earliest that zip files can say: times are no content."""


@dataclass(frozen=True, slots=True)
class Pack:
    """A packed folder, in a temporary file."""

    digest: str
    size: int
    file: IO[bytes] = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    name: str
    """Relative to the folder."""
    mode: int
    size: int


def pack_folder(folder: Path) -> Pack:
    """Pack a folder; `ClientError` names what is too large or leads out of it."""
    entries = _checked(folder)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the pack
    with (
        gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry in entries:
            _add(tar, entry)
    size = file.tell()
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return Pack(DIGEST + digest, size, file)


def _checked(folder: Path) -> list[_Entry]:
    """Return what is packed, in order."""
    if not folder.is_dir():
        raise _refusal(f"{folder} is not a folder")
    found, total = [], 0
    for entry in _entries(folder, folder, rules_above(folder).below(folder)):
        found.append(entry)
        total += entry.size
        if len(found) > SHIP_ENTRIES:
            raise _refusal(f"{folder} has more than {SHIP_ENTRIES:,} files; {_advice()}")
    if total > SHIP_LIMIT:
        raise _too_large(folder, found, total)
    return found


def _entries(root: Path, folder: Path, rules: IgnoreRules) -> Iterator[_Entry]:
    try:
        children = sorted(os.scandir(folder), key=lambda each: each.name)
    except OSError as problem:
        raise _refusal(f"{folder} cannot be read: {problem.strerror}") from None
    for child in children:
        path = Path(child.path)
        below = child.is_dir(follow_symlinks=False)
        if rules.ignored(path, folder=below):
            continue
        state = child.stat(follow_symlinks=False)
        name = path.relative_to(root).as_posix()
        if below:
            yield _Entry(path, name, state.st_mode, 0)
            yield from _entries(root, path, rules.below(path))
        elif stat.S_ISLNK(state.st_mode):
            _refuse_escape(root, path, name)
            yield _Entry(path, name, state.st_mode, 0)
        elif stat.S_ISREG(state.st_mode):  # sockets, pipes and devices have no content
            yield _Entry(path, name, state.st_mode, state.st_size)


def _refuse_escape(root: Path, link: Path, name: str) -> None:
    target = os.readlink(link)  # noqa: PTH115 - as it is written
    lexical = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120
    if os.path.isabs(target) or lexical.split("/")[0] == "..":  # noqa: PTH117
        raise _refusal(
            f"{name} is a link out of {root}, to {target}: list it in .musterignore, and use its "
            "target's path in the job"
        )


def _add(tar: tarfile.TarFile, entry: _Entry) -> None:
    info = tarfile.TarInfo(entry.name)
    info.mtime = _TIME
    if stat.S_ISDIR(entry.mode):
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(info)
    elif stat.S_ISLNK(entry.mode):
        info.type, info.mode = tarfile.SYMTYPE, 0o777
        info.linkname = str(entry.path.readlink())
        tar.addfile(info)
    else:
        info.mode, info.size = 0o755 if entry.mode & stat.S_IXUSR else 0o644, entry.size
        try:
            with entry.path.open("rb") as file:
                tar.addfile(info, file)
        except OSError as problem:  # also: shorter than a moment ago
            why = problem.strerror or "it changes while it is read"
            raise _refusal(f"{entry.name} cannot be packed: {why}") from None


def _too_large(folder: Path, entries: list[_Entry], total: int) -> ClientError:
    largest = sorted(entries, key=lambda entry: -entry.size)[:_NAMED]
    named = ", ".join(f"{entry.name} ({_megabytes(entry.size)})" for entry in largest)
    return _refusal(
        f"{folder} has {_megabytes(total)}, above the limit of {_megabytes(SHIP_LIMIT)}; largest: "
        f"{named}; {_advice()}"
    )


def _advice() -> str:
    return "list what the job does not need in .musterignore"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def _refusal(problem: str) -> ClientError:
    fault = FieldFault("ship", problem)
    return ClientError(422, "Unprocessable Content", "the job cannot run", errors=[fault])
