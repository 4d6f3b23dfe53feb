"""Unpacks a shipped folder in the task's own process. Loaded by the shim: nothing but the standard
library is there."""

import contextlib
import os
import posixpath
import shutil
import tarfile
import tempfile
from pathlib import Path

MOST_BYTES, MOST_ENTRIES = 300_000_000, 110_000
"""A little above what clients pack."""

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class UnsafeError(Exception):
    """An entry that no client packs."""


def unpack(pack: int, into: str) -> None:
    """Make a folder from an open pack, unless it is there: another task of the job was faster."""
    target = Path(into)
    if target.is_dir() and any(target.iterdir()):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=target.parent))
    try:
        with os.fdopen(pack, "rb") as file, tarfile.open(fileobj=file, mode="r|gz") as tar:
            extract(tar, draft)
        with contextlib.suppress(OSError):  # a folder that is not empty is not replaced
            draft.rename(target)
        if not target.is_dir():
            raise UnsafeError(f"{into} could not be made")
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def extract(tar: tarfile.TarFile, into: Path) -> None:
    """Write files, folders and links, all of them below `into`."""
    links: set[str] = set()
    size = count = 0
    for member in tar:
        size, count = size + member.size, count + 1
        if size > MOST_BYTES or count > MOST_ENTRIES:
            raise UnsafeError("it is larger than a shipped folder may be")
        check(member, links)
        path = into / member.name
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.issym():
            links.add(member.name)
            path.symlink_to(member.linkname)
        else:
            write(tar, member, path)


def write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    content = tar.extractfile(member)
    assert content is not None
    with content, os.fdopen(os.open(path, NEW, member.mode & 0o755), "wb") as file:
        shutil.copyfileobj(content, file)


def check(member: tarfile.TarInfo, links: set[str]) -> None:
    """Reject what would be written elsewhere, or is no file, folder or link."""
    name = member.name
    parts = name.split("/")
    if not name or name.startswith("/") or ".." in parts:
        raise UnsafeError(f"{name!r} leads out of the folder")
    if any("/".join(parts[:depth]) in links for depth in range(1, len(parts) + 1)):
        raise UnsafeError(f"{name!r} is below a link")
    if not (member.isreg() or member.isdir() or member.issym()):
        raise UnsafeError(f"{name!r} is no file, folder or link")
    if member.issym():
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
        if member.linkname.startswith("/") or target.split("/")[0] == "..":
            raise UnsafeError(f"{name!r} links out of the folder")
