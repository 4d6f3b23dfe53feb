"""The packed folders that jobs ship: uploaded by their users, kept while a job may need them.

Each user has a folder of links to the packs they have uploaded; executors read them from the folder
above. A digest that somebody else has uploaded is of no use: a job runs in its submitter's packs alone.
"""

import threading
from collections.abc import Set
from pathlib import Path

from muster.daemon.service.protocol import ConflictError, RefusedError
from muster.executors.packs import BadPackError, PackFolder
from muster.wire.api.records import SHIP_LIMIT, PackRecord

USERS = "users"
QUOTA = 2_000_000_000
"""Bytes of packs of one user: some hundred versions of most projects."""


class PackShelf:
    """The packs of all users. Thread-safe."""

    def __init__(self, folder: Path, quota: int = QUOTA) -> None:
        self._folder, self._quota = folder, quota
        self._all = PackFolder(folder)
        self._lock = threading.Lock()

    def record(self, user: str, digest: str) -> PackRecord:
        """Return how much of a pack a user has uploaded."""
        own = self._of(user)
        return PackRecord(digest, own.size(digest), own.has(digest))

    def put(
        self, user: str, digest: str, offset: int, data: bytes, last: bool, needed: Set[str]
    ) -> PackRecord:
        """Take a part; `needed`: packs that must stay when others make room for it."""
        own = self._of(user)
        with self._lock:
            self._make_room(own, user, digest, len(data), needed)
            try:
                own.add(digest, offset, data)
                if last:
                    own.finish(digest)
            except BadPackError as problem:
                raise ConflictError(f"ship: {problem}") from None
        return self.record(user, digest)

    def _make_room(self, own: PackFolder, user: str, digest: str, size: int, needed: Set[str]) -> None:
        if own.size(digest) + size > SHIP_LIMIT:
            raise RefusedError(f"ship: a pack has at most {SHIP_LIMIT // 10**6} MB")
        if own.total() + size <= self._quota:
            return
        own.prune({*needed, digest}, 0.0, self._quota - size)
        if own.total() + size > self._quota:
            raise RefusedError(
                f"ship: the packs of {user}'s jobs take all of {self._quota // 10**6} MB; wait for one "
                "of them to end, or ship less (.musterignore)"
            )

    def take(self, uploader: str, user: str, digest: str) -> None:
        """Hand a pack to the executors, for a job of `user`; RefusedError if it was not uploaded."""
        own = self._of(uploader)
        with self._lock:
            if not own.has(digest):
                raise RefusedError(
                    f"ship: {uploader} has not uploaded {digest}; submit with muster run or the "
                    "Python client"
                )
            own.touch(digest)
            if user != uploader:
                self._of(user).link(digest, own)
            self._all.link(digest, own)

    def prune(self, needed: Set[str], older_than: float) -> None:
        """Remove what no live job needs and nobody has used since then."""
        with self._lock:
            users = self._folder / USERS
            for each in users.iterdir() if users.is_dir() else ():
                PackFolder(each).prune(needed, older_than)
            self._all.prune(needed, older_than)

    def _of(self, user: str) -> PackFolder:
        return PackFolder(self._folder / USERS / user)
