"""Packed folders on disk, by digest: complete ones, and those of which parts are still to come."""

import contextlib
import hashlib
import os
import re
from collections.abc import Container
from pathlib import Path

from muster.executors.private_folder import make_private

PACKS = "packs"
"""The folder with the packs of an executor's tasks, in its own."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class BadPackError(Exception):
    """A part that does not fit, or content that is not what its digest says."""


class PackFolder:
    """The packs in a folder. Complete ones are verified, and never change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        """Return where a complete pack is; `BadPackError` if that is no digest."""
        if not DIGEST.fullmatch(digest):
            raise BadPackError(f"{digest!r} is not the digest of a pack")
        return self._folder / f"{digest.removeprefix('sha256:')}.tgz"

    def has(self, digest: str) -> bool:
        return self.path(digest).exists()

    def size(self, digest: str) -> int:
        """Return the bytes of a pack that are here, of an incomplete one too."""
        for path in (self.path(digest), self._draft(digest)):
            with contextlib.suppress(FileNotFoundError):
                return path.stat().st_size
        return 0

    def add(self, digest: str, offset: int, data: bytes) -> int:
        """Append a part and return the bytes that are here; a part that is here already is ignored."""
        here = self.size(digest)
        if self.has(digest) or offset < here:
            return here
        if offset > here:
            raise BadPackError(f"bytes {here} to {offset} of the pack are missing")
        make_private(self._folder)
        descriptor = os.open(self._draft(digest), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        return here + len(data)

    def finish(self, digest: str) -> None:
        """Verify a pack whose last part has come; damaged, it is removed. Idempotent."""
        if self.has(digest):
            return
        draft = self._draft(digest)
        with draft.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if f"sha256:{found}" != digest:
            draft.unlink()
            raise BadPackError(f"the pack {digest} is damaged: its content is sha256:{found}")
        draft.replace(self.path(digest))

    def link(self, digest: str, other: "PackFolder") -> None:
        """Have a pack of another folder here as well. Idempotent."""
        make_private(self._folder)
        with contextlib.suppress(FileExistsError):
            os.link(other.path(digest), self.path(digest))

    def touch(self, digest: str) -> None:
        """Mark a pack as used now."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self.path(digest))

    def total(self) -> int:
        """Return the bytes of all packs, incomplete ones too."""
        return sum(path.stat().st_size for path in self._files())

    def prune(self, keep: Container[str], older_than: float, most: int | None = None) -> int:
        """Remove packs that are not to be kept and not used since then, or the least recently used
        ones above `most` bytes in all; return how many."""
        left, removed = self.total(), 0
        for path in sorted(self._files(), key=lambda each: each.stat().st_mtime):
            if f"sha256:{path.name.split('.')[0]}" in keep:
                continue
            state = path.stat()
            if state.st_mtime < older_than or (most is not None and left > most):
                path.unlink(missing_ok=True)
                left, removed = left - state.st_size, removed + 1
        return removed

    def _draft(self, digest: str) -> Path:
        return self.path(digest).with_suffix(".part")

    def _files(self) -> list[Path]:
        with contextlib.suppress(FileNotFoundError):
            return [path for path in self._folder.iterdir() if path.is_file()]
        return []
