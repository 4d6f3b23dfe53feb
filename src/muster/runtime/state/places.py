"""Where checkpoints are kept: a folder of a file system, or a URL that fsspec knows."""

import contextlib
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from muster.runtime.errors import BadCheckpointError
from muster.runtime.state.owner import make_private

Fill = Callable[[int], None]
"""Writes the content of a file to an open descriptor, and syncs it."""

PAUSES = (1.0, 5.0, 20.0)
"""s before an upload is tried again; the client of the store has retries of its own below these."""
OBJECTS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "az", "oss", "memory"})
"""Stores in which an object appears whole; elsewhere it is renamed once it is."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


class Place(Protocol):
    """Files by name, which appear whole or not at all."""

    def names(self) -> list[str]:
        """Return the names of all files; none if the place does not exist yet."""
        ...

    def read(self, name: str) -> bytes:
        """Return the content of a small file."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a small file; False if it exists."""
        ...

    def write(self, name: str, fill: Fill) -> None:
        """Write or replace a file."""
        ...

    def opened(self, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
        """Open a file for reading from anywhere in it."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...

    def address(self, name: str) -> str:
        """Return where a file is, for people."""
        ...


def is_url(text: str) -> bool:
    """Whether a text names a place by URL; `file://` is a path."""
    return _URL.match(text) is not None


def place_of(where: str | Path) -> Place:
    """Return the place that a path or a URL names."""
    text = str(where)
    if text.startswith("file://"):
        return LocalFolder(Path(text.removeprefix("file://")))
    return RemoteFolder(text) if is_url(text) else LocalFolder(Path(text))


class LocalFolder:
    """A folder of a file system, perhaps of one that several nodes see."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return [each.name for each in self.path.iterdir()]
        return []

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def create(self, name: str, data: bytes) -> bool:
        make_private(self.path)
        draft = self._draft(name)
        try:
            with os.fdopen(os.open(draft, _NEW, 0o600), "wb") as file:
                file.write(data)
            os.link(draft, self.path / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def write(self, name: str, fill: Fill) -> None:
        make_private(self.path)
        draft = self._draft(name)
        try:
            descriptor = os.open(draft, _NEW, 0o600)
            try:
                fill(descriptor)
            finally:
                os.close(descriptor)
            draft.replace(self.path / name)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        self._sync()

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        with (self.path / name).open("rb") as file:
            yield file

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def address(self, name: str) -> str:
        return str(self.path / name)

    def _draft(self, name: str) -> Path:
        # A process number is not enough: other hosts may share the folder.
        return self.path / f".{name.removeprefix('.')}.{secrets.token_hex(4)}"

    def _sync(self) -> None:
        """Sync a rename in the folder."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class RemoteFolder:
    """The objects below a URL. Files are made on a local disk first: an upload can be repeated."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._fs, self._root = _file_system(self.url)
        protocol = self._fs.protocol
        names = {protocol} if isinstance(protocol, str) else set(protocol)
        self._whole = bool(names & OBJECTS)

    def names(self) -> list[str]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return [name for name in (path.rpartition("/")[2] for path in found) if name]

    def read(self, name: str) -> bytes:
        return bytes(self._fs.cat_file(self._path(name)))

    def create(self, name: str, data: bytes) -> bool:
        self._fs.invalidate_cache()
        if self._fs.exists(self._path(name)):
            return False
        self._make()
        try:
            self._fs.pipe_file(self._path(name), data, mode="create")
        except OSError:  # of a store that was asked for a new file, and has one
            if not self._fs.exists(self._path(name)):
                raise
            return False
        return True

    def write(self, name: str, fill: Fill) -> None:
        with tempfile.NamedTemporaryFile(prefix="muster-checkpoint-") as file:
            fill(file.fileno())
            self._make()
            for pause in (*PAUSES, None):
                try:
                    self._put(file.name, name)
                    return
                except Exception:
                    if pause is None:
                        raise
                    time.sleep(pause)

    def _put(self, local: str, name: str) -> None:
        if self._whole:
            self._fs.put_file(local, self._path(name))
            return
        draft = self._path(f".{name}.part")
        self._fs.put_file(local, draft)
        self._fs.mv(draft, self._path(name))

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        with tempfile.NamedTemporaryFile(prefix="muster-checkpoint-") as file:
            self._fs.get_file(self._path(name), file.name)
            with Path(file.name).open("rb") as copy:
                yield copy

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))

    def address(self, name: str) -> str:
        return f"{self.url}/{name}"

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _make(self) -> None:
        if not self._whole:
            self._fs.makedirs(self._root, exist_ok=True)


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        fs, root = url_to_fs(url, use_listings_cache=False)
    except ImportError as problem:
        raise BadCheckpointError(
            f"checkpoints at {url} need a package that is not installed ({problem}): "
            "pip install 'musterd[remote]' where the job's Python is"
        ) from None
    except ValueError as problem:
        raise BadCheckpointError(f"checkpoints cannot be kept at {url}: {problem}") from None
    return fs, root.rstrip("/")
