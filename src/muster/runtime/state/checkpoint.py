"""Checkpoints: copied at a step boundary, written atomically by a thread, verified when read.

A file is the output of `torch.save`, a manifest (JSON: step, signature, owner), and a SHA-256 of both
with their lengths. It appears under its name once it is whole (`places.py`), so a process killed at any
point leaves earlier ones intact, and a writer that was given up adds none that counts (`fence.py`).
Nothing in it belongs to a rank: any number of workers can load it. It belongs to a job, though: see
`owner.py`.
"""

import json
import logging
import os
import re
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from pathlib import Path
from threading import Thread
from typing import Any, BinaryIO

import torch
from torch import Tensor

from muster.runtime.errors import BadCheckpointError, BadTrainingError
from muster.runtime.state.fence import (
    Claimed,
    WriterFence,
    WriterTerms,
    claimed,
    counting,
    read_name,
    saved_name,
)
from muster.runtime.state.owner import NO_ROOM, CheckpointOwner, WriterClaim, WriterLock
from muster.runtime.state.places import LocalFolder, Place, is_url, place_of

_END = struct.Struct(">32sQQ8s")
"""End of a file: SHA-256 of all before, bytes of content and manifest, mark."""
_MARK = b"MUSTER-1"
_UNFINISHED = re.compile(r"\.step-(\d{12})(?:\.c\d+)?\.pt\.\d+")
_NAMED = 3
"""Differing tensors named in an error."""
NO_TERMS = WriterTerms()
FORMAT = 2
"""Of the manifest: 1 had no owner."""
DEPTH = 3
"""Levels of subfolders in which a job's checkpoints are looked for."""

_log = logging.getLogger("muster")


class Checkpoints:
    """The newest `keep` checkpoints of a training in a folder.

    The writing thread calls `on_saved(step, address, seconds)` and `on_error(message)`, `latest` also
    the latter; by default errors are logged.
    """

    def __init__(
        self,
        folder: str | Path,
        keep: int = 3,
        on_saved: Callable[[int, str, float], None] | None = None,
        on_error: Callable[[str], None] | None = None,
        claim: WriterClaim | None = None,
        terms: WriterTerms = NO_TERMS,
    ) -> None:
        """`folder`: a path or a URL. `claim`: who writes here; None: whoever calls `save`, and `latest`
        takes anybody's."""
        self.place, self._keep = place_of(folder), max(1, keep)
        self._on_saved, self._on_error = on_saved or (lambda *_: None), on_error or _log.warning
        self._claim = claim
        self._lock = _lock_of(self.place, claim)
        self._fence = WriterFence(self.place, claim, terms) if claim is not None else None
        self._buffers = HostCopies()
        self._thread: Thread | None = None
        self._preparing = False
        self.source = self.where
        """Where the last checkpoint was read."""
        self.failed = ""
        """Why the last checkpoint was not written; empty: it was."""

    @property
    def where(self) -> str:
        """The path or the URL."""
        return self.place.address("").rstrip("/")

    def save(self, step: int, state: dict[str, Any], signature: str, wait: bool = False) -> bool:
        """Copy the state and write it in a thread; False if the previous one is still being written.

        `wait`: for the previous one and until this one is on disk: the last of a training.
        """
        if wait or self._preparing:
            self.close()
        if self._thread is not None and self._thread.is_alive():
            return False
        try:
            if self._lock is not None:
                self._lock.take()  # the primary may have changed
        except BadCheckpointError as problem:
            self._fail(f"checkpoint of step {step} is not written: {problem}")
            return False
        copy = self._buffers.copied(state)
        self._thread = Thread(
            target=self._write, args=(step, copy, signature), name="muster-checkpoint"
        )
        self._thread.start()
        if wait:
            self.close()
        return True

    def prepare(self, state: dict[str, Any]) -> None:
        """Allocate the buffers for such a state, in the thread: the first save is then fast, too."""
        self.close()
        self._thread = Thread(target=self._buffers.copied, args=(state,), name="muster-checkpoint")
        self._preparing = True
        self._thread.start()

    def take(self) -> None:
        """Become the writer of the folder; `BadCheckpointError` if another run is. Idempotent."""
        if self._lock is not None:
            self._lock.take()
        if self._fence is not None:
            with _no_room_is_no_error():
                self._fence.take(begins=True)

    def release(self) -> None:
        """Wait for what is being written, and let another run write here."""
        self.close()
        if self._lock is not None:
            self._lock.release()

    def latest(self, signature: str | None = None) -> tuple[int, dict[str, Any]] | None:
        """Return step and state of the newest intact checkpoint; None if there are none.

        Without one of its own, a training starts from those it was told to resume from. `signature`
        None: of any model.
        """
        other = self._claim.resume_from if self._claim is not None else None
        found = self._newest(_saved_in(self.place), signature, self._check_owner)
        if found is not None or other is None or _same(other, self.place):
            return found
        return self._newest(_saved_of(other), signature, self._tell_source)

    def _newest(
        self, files: "list[_Saved]", signature: str | None, check: "Check"
    ) -> tuple[int, dict[str, Any]] | None:
        damaged = []
        for saved in files:
            try:
                found = _read(saved, signature, check)
                self.source = saved.folder
                return found
            except FileNotFoundError:
                continue  # just removed by its writer
            except (_DamagedError, OSError) as problem:
                damaged.append(saved.name)
                self._on_error(
                    f"checkpoint {saved.address} is damaged ({problem}): trying the previous one"
                )
        if damaged:
            raise BadCheckpointError(
                f"no checkpoint in {files[0].folder} is intact: {', '.join(damaged)}; "
                "to start over, use another folder"
            )
        return None

    def _check_owner(self, saved: "_Saved", manifest: dict[str, Any]) -> None:
        """Reject another's checkpoint, unless this training was told to resume from it."""
        claim, record = self._claim, manifest.get("owner")
        if claim is None or record is None:  # of a Muster whose checkpoints had no owner
            return
        owner = CheckpointOwner.read(record)
        if owner == claim.owner or (claim.resume_from and _same(claim.resume_from, self.place)):
            return
        here = saved.folder
        raise BadCheckpointError(
            f"checkpoints in {here} belong to {owner}, and this is {claim.owner}: give this training "
            f"another folder, or continue from them with --resume-from {here} (without a daemon: "
            f"MUSTER_RESUME_FROM={here})"
        )

    def _tell_source(self, saved: "_Saved", manifest: dict[str, Any]) -> None:
        record = manifest.get("owner")
        whose = f" of {CheckpointOwner.read(record)}" if record else ""
        self._on_error(f"resuming from step {manifest['step']}{whose}, {saved.address}")

    def close(self) -> None:
        """Wait for what is being written."""
        if self._thread is not None:
            self._thread.join()
            self._thread, self._preparing = None, False

    def _write(self, step: int, state: dict[str, Any], signature: str) -> None:
        begun = time.monotonic()
        try:
            name = saved_name(step, self._number())
            manifest = self._manifest(step, signature)
            self.place.write(name, lambda descriptor: _write_file(descriptor, state, manifest))
            if self._fence is not None:
                self._fence.check()
            self._prune(step)
        except Exception as problem:  # training continues, and the last one is intact
            self._fail(f"checkpoint of step {step} could not be written to {self.where}: {problem}")
        else:
            self.failed = ""
            self._on_saved(step, self.place.address(name), time.monotonic() - begun)

    def _fail(self, text: str) -> None:
        self.failed = text
        self._on_error(text)

    def _number(self) -> int:
        """Return the number of this writer's claim; 0 without one."""
        if self._fence is None:
            return 0
        self._fence.take()
        return self._fence.top.number

    def _manifest(self, step: int, signature: str) -> dict[str, Any]:
        owner = asdict(self._claim.owner) if self._claim is not None else None
        return {"version": FORMAT, "step": step, "signature": signature, "owner": owner}

    def _prune(self, step: int) -> None:
        """Remove all but the newest, what does not count, and leftovers of killed processes."""
        names = self.place.names()
        count = counting(names, self._fence.top if self._fence is not None else Claimed())
        kept = {each.name for each in [each for each in count if each.step <= step][: self._keep]}
        kept |= {each.name for each in count if each.step > step}
        for name in names:
            saved, left = read_name(name), _UNFINISHED.fullmatch(name)
            if (saved and name not in kept) or (left and int(left[1]) <= step):
                self.place.remove(name)


def signature_of(model: Any, optimizer: Any) -> str:
    """Describe what a checkpoint of one model and one optimiser must match."""
    return signature_of_all(model.state_dict(), [optimizer])


def signature_of_all(
    state: Mapping[str, Any], optimizers: Sequence[Any], groups: Sequence[int] | None = None
) -> str:
    """Describe what a checkpoint must match: tensors by name, shape and type, and the optimisers.

    `groups`: of parameters, before any was added while training; None: as they are.
    """
    tensors = {
        name: [list(value.shape), str(value.dtype).removeprefix("torch.")]
        for name, value in state.items()
        if isinstance(value, Tensor)
    }
    kinds = ", ".join(type(optimizer).__name__ for optimizer in optimizers)
    if groups is None:
        groups = [len(group["params"]) for optimizer in optimizers for group in optimizer.param_groups]
    return json.dumps({"tensors": tensors, "optimizer": kinds, "groups": list(groups)})


def _saved_in(place: Place) -> "list[_Saved]":
    """Return the checkpoints that count, newest first."""
    names = place.names()
    return [_Saved(place, each.name) for each in counting(names, claimed(place, names))]


def _saved_of(other: Path | str) -> "list[_Saved]":
    """Return the checkpoints to resume from, newest first: of a file, a folder or URL, or one below."""
    found: Sequence[Path | str]
    if isinstance(other, str) and is_url(other):
        found = _urls_below(other.rstrip("/"), DEPTH)
    else:
        path = Path(other)
        try:
            if path.is_file():
                return [_Saved(place_of(path.parent), path.name)]
            found = [path] if _saved_in(place_of(path)) else _folders_below(path)
        except OSError as problem:
            raise BadCheckpointError(f"cannot resume from {other}: {problem.strerror}") from problem
    if not found:
        raise BadCheckpointError(f"nothing to resume from: there is no checkpoint in {other}")
    if len(found) > 1:
        names = ", ".join(str(each) for each in found)
        raise BadCheckpointError(f"{other} has several trainings; resume from one of: {names}")
    return _saved_in(place_of(found[0]))


def _urls_below(url: str, depth: int) -> list[str]:
    """Return the places with checkpoints at or below a URL; what is below a place with some is not."""
    place = place_of(url)
    if _saved_in(place):
        return [url]
    below = sorted(place.names()) if depth else []
    return [found for name in below for found in _urls_below(f"{url}/{name}", depth - 1)]


def _folders_below(folder: Path) -> list[Path]:
    """Return the folders with checkpoints in a job's own: one for each that its script names."""
    found = []
    for at, below, _ in os.walk(folder, followlinks=True):
        here = Path(at)
        if len(here.relative_to(folder).parts) >= DEPTH:
            below.clear()
        if _saved_in(place_of(here)):
            found.append(here)
    return sorted(found)


def _same(one: Path | str, other: Place) -> bool:
    if isinstance(other, LocalFolder):
        return not is_url(str(one)) and Path(one).resolve() == other.path.resolve()
    return str(one).rstrip("/") == other.address("").rstrip("/")


def _lock_of(place: Place, claim: WriterClaim | None) -> WriterLock | None:
    """Return a lock where there are some: it keeps trainings of one machine apart at once."""
    if claim is None or not isinstance(place, LocalFolder):
        return None
    return WriterLock(place.path, claim)


@contextmanager
def _no_room_is_no_error() -> Iterator[None]:
    """There may be room later; a save says so otherwise."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise


@dataclass(frozen=True, slots=True)
class _Saved:
    """A checkpoint, somewhere."""

    place: Place
    name: str

    @property
    def address(self) -> str:
        return self.place.address(self.name)

    @property
    def folder(self) -> str:
        return self.place.address("").rstrip("/")


Check = Callable[[_Saved, dict[str, Any]], None]
"""May refuse a checkpoint by its manifest."""


class _DamagedError(Exception):
    """A file that is not as it was written."""


class HostCopies:
    """Copies of a state's tensors in host memory, reused by the next save."""

    def __init__(self) -> None:
        self._held: dict[tuple[Any, ...], Tensor] = {}
        self._used: dict[tuple[Any, ...], Tensor] = {}

    def copied(self, state: dict[str, Any]) -> dict[str, Any]:
        """Copy the state; valid until the next call."""
        self._used = {}
        with torch.no_grad():
            copy = self._value((), state)
            if any(buffer.is_pinned() for buffer in self._used.values()):
                torch.cuda.synchronize()
        self._held = self._used
        return copy

    def _value(self, path: tuple[Any, ...], value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._tensor(path, value.detach())
        if isinstance(value, dict):
            return {key: self._value((*path, key), each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            parts = [self._value((*path, place), each) for place, each in enumerate(value)]
            return parts if isinstance(value, list) else tuple(parts)
        return _plain(path, value)

    def _tensor(self, path: tuple[Any, ...], tensor: Tensor) -> Tensor:
        if tensor.layout != torch.strided:
            return tensor.cpu().clone()
        buffer = self._held.get(path)
        if buffer is None or buffer.shape != tensor.shape or buffer.dtype != tensor.dtype:
            buffer = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        self._used[path] = buffer
        return buffer.copy_(tensor, non_blocking=tensor.is_cuda)


class _Sink:
    """Appends to a file and hashes; keeps the first error for `check`.

    torch's archive writer does not cope with errors in the middle.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.hash, self.bytes = sha256(), 0
        self._problem: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.hash.update(view)
        self.bytes += len(view)
        try:
            rest = view
            while self._problem is None and len(rest):
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as problem:
            self._problem = problem
        return len(view)

    def flush(self) -> None:
        """Unbuffered."""

    def check(self) -> None:
        if self._problem is not None:
            raise self._problem


class _Content(RawIOBase):
    """The beginning of a file as a file."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        super().__init__()
        self._file, self._length = file, length

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        left = max(0, self._length - self._file.tell())
        data = self._file.read(min(len(view), left))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        base = {SEEK_SET: 0, SEEK_CUR: self._file.tell(), SEEK_END: self._length}[whence]
        return self._file.seek(base + offset)


def _write_file(descriptor: int, state: dict[str, Any], manifest: dict[str, Any]) -> None:
    sink = _Sink(descriptor)
    torch.save(state, sink)
    content, text = sink.bytes, json.dumps(manifest).encode()
    sink.write(text)
    sink.write(_END.pack(sink.hash.digest(), content, len(text), _MARK))
    sink.check()
    os.fsync(descriptor)


def _read(saved: _Saved, signature: str | None, check: Check) -> tuple[int, dict[str, Any]]:
    """Return step and state of a checkpoint; `check` may refuse its manifest."""
    path = saved.address
    with saved.place.opened(saved.name) as file:
        length, manifest = _checked(file)
        if manifest.get("version", 1) > FORMAT:
            raise BadCheckpointError(
                f"checkpoint {path} was written by a newer Muster (format {manifest['version']}, "
                f"this one knows {FORMAT}); install that one here"
            )
        check(saved, manifest)
        if signature is not None and manifest["signature"] != signature:
            how = _difference(manifest["signature"], signature)
            raise BadCheckpointError(f"checkpoint {path} is of another model: {how}")
        return manifest["step"], _load(file, length, path)


def _load(file: BinaryIO, length: int, path: str) -> dict[str, Any]:
    file.seek(0)
    try:
        # Not mapped: a mapped file must not be replaced.
        state: dict[str, Any] = torch.load(
            _Content(file, length), map_location="cpu", weights_only=True
        )
        return state
    except OSError:
        raise
    except Exception as problem:
        raise BadCheckpointError(f"checkpoint {path} cannot be loaded: {problem}") from problem


def write_file(place: Place, name: str, state: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Write a file of a checkpoint, with its digest."""
    place.write(name, lambda descriptor: _write_file(descriptor, state, manifest))


def read_file(place: Place, name: str) -> dict[str, Any]:
    """Read such a file; `BadCheckpointError` if it is damaged."""
    with place.opened(name) as file:
        try:
            length, _ = _checked(file)
        except _DamagedError as problem:
            raise BadCheckpointError(f"{place.address(name)} is damaged: {problem}") from problem
        return _load(file, length, place.address(name))


def _checked(file: BinaryIO) -> tuple[int, dict[str, Any]]:
    """Verify a file; return the length of its content, and its manifest."""
    size = file.seek(0, SEEK_END)
    if size < _END.size:
        raise _DamagedError(f"{size} bytes")
    file.seek(size - _END.size)
    digest, content, text, mark = _END.unpack(file.read(_END.size))
    if mark != _MARK or content + text + _END.size != size:
        raise _DamagedError("its end is missing")
    file.seek(0)
    if file_digest(_Content(file, content + text), "sha256").digest() != digest:
        raise _DamagedError("its content has changed")
    file.seek(content)
    return content, json.loads(file.read(text))


def _difference(saved: str, here: str) -> str:
    """Describe the first tensors that differ."""
    then, now = json.loads(saved), json.loads(here)
    names = list(dict.fromkeys([*now["tensors"], *then["tensors"]]))
    differing = [name for name in names if then["tensors"].get(name) != now["tensors"].get(name)]
    if not differing:
        return (
            f"its optimizer is {then['optimizer']} with groups of {then['groups']} parameters, "
            f"here it is {now['optimizer']} with {now['groups']}"
        )
    said = [
        f"{name} is {_shape(then['tensors'], name)} there and {_shape(now['tensors'], name)} here"
        for name in differing[:_NAMED]
    ]
    more = f"; and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
    return "; ".join(said) + more


def _shape(tensors: dict[str, Any], name: str) -> str:
    return "{1}{0}".format(*tensors[name]) if name in tensors else "missing"


def _plain(path: tuple[Any, ...], value: Any) -> Any:
    """Return a plain number or text: all that can be loaded without running code."""
    if value is None:
        return None
    kinds: tuple[Any, ...] = (bool, int, float, str, bytes)
    for kind in kinds:
        if isinstance(value, kind):
            return kind(value)  # numpy's float64 is a float, but pickled as numpy's
    place = "".join(f"[{key!r}]" for key in path)
    raise BadTrainingError(
        f"state{place} is a {type(value).__name__}: a checkpoint holds tensors, numbers, text, "
        "lists, tuples and dicts"
    )
