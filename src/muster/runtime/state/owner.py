"""Whose checkpoints are in a folder, and who may write there.

A checkpoint belongs to a job and its command line, so that trainings that name one folder never take
up each other's weights. One run at a time writes to a folder: it holds a lock, which the kernel
releases with the process. All tasks of a job are one run: whichever of them is the primary may write,
and a member that hangs with the lock does not stop its successor.
"""

import errno
import fcntl
import getpass
import hashlib
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muster.runtime.errors import BadCheckpointError
from muster.runtime.settings import TaskSettings

LOCK = ".writer"
"""The file in a folder whose lock the writer holds, with its name in it."""

_THIS_PROCESS = secrets.token_hex(16)
"""The run of a training without a coordinator."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_SIGNING, _LOOK = 1.0, 0.02
"""Seconds in which whoever has just taken a lock has written its name, and between looks at it."""


@dataclass(frozen=True, slots=True)
class CheckpointOwner:
    """A job and the command line it trains with."""

    job: str
    user: str
    script: str = ""
    """Absolute; empty: typed in, as in a notebook."""
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        command = " ".join((Path(self.script).name, *self.arguments)) if self.script else ""
        return f"job {self.job} of {self.user}" + (f" ({command})" if command else "")

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "CheckpointOwner":
        """Return the owner that a manifest names."""
        return cls(**{**record, "arguments": tuple(record["arguments"])})


@dataclass(frozen=True, slots=True)
class WriterClaim:
    """What a training claims of a folder of checkpoints."""

    owner: CheckpointOwner
    run: str
    """The same for all tasks of a job, and for nobody else."""
    resume_from: Path | str | None = None
    """Another's checkpoints to start from while there are none of its own; text: a URL."""
    attempt: int = 0
    """Of the run: tasks of an earlier one may still live, on a node that was given up."""


def claim_of(settings: TaskSettings, resume_from: Path | str | None = None) -> WriterClaim:
    """Return what this process may claim."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    script = os.path.realpath(main) if main else ""
    named_after = Path(script).stem or "job"
    owner = CheckpointOwner(
        job=named_after if settings.coordinator is None else settings.job,
        user=settings.user or _login(),
        script=script,
        arguments=tuple(sys.argv[1:]) if main else (),
    )
    alone = settings.coordinator is None or not settings.token
    run = _THIS_PROCESS if alone else hashlib.sha256(settings.token.encode()).hexdigest()[:32]
    return WriterClaim(owner, run, resume_from, settings.attempt)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, for this user only."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


class WriterLock:
    """The right to write to a folder of checkpoints."""

    def __init__(self, folder: Path, claim: WriterClaim) -> None:
        self._folder, self._claim = folder, claim
        self._descriptor: int | None = None

    def take(self) -> None:
        """Create the folder and lock it; `BadCheckpointError` if another run writes there.

        A member of the same run may hold the lock and hang: it does not count.
        """
        if self._descriptor is not None:
            return
        try:
            make_private(self._folder)
            descriptor = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as problem:
            if problem.errno in NO_ROOM:
                return  # there may be room later; a save says so otherwise
            raise BadCheckpointError(
                f"checkpoints cannot be written to {self._folder}: {problem.strerror}; give the "
                "training a folder that it may write to"
            ) from problem
        try:
            if self._locked(descriptor):
                self._descriptor, descriptor = descriptor, -1
                _HELD.add(self._descriptor)
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def release(self) -> None:
        """Let another run write. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            _HELD.discard(descriptor)
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def _locked(self, descriptor: int) -> bool:
        """Lock the file; False if a member of this run holds it."""
        until = time.monotonic() + _SIGNING
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                holder = _card_in(descriptor)
            except OSError:
                return True  # a file system without locks: nothing can be said of other writers
            if holder.get("run") == self._claim.run:
                return False
            if time.monotonic() > until:
                raise self._refusal(holder)
            time.sleep(_LOOK)
        with suppress(OSError):  # a full disk: others learn less
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, self._card(), 0)
        return True

    def _card(self) -> bytes:
        owner = asdict(self._claim.owner)
        where = {"run": self._claim.run, "pid": os.getpid(), "host": socket.gethostname()}
        return json.dumps({"owner": owner, **where}).encode()

    def _refusal(self, holder: dict[str, Any]) -> BadCheckpointError:
        who = "another training"
        with suppress(KeyError, TypeError):
            owner = CheckpointOwner.read(holder["owner"])
            who = f"{owner}, process {holder['pid']} on {holder['host']}"
        return BadCheckpointError(
            f"checkpoints in {self._folder} are being written by {who}: give this training another "
            "folder, or stop that one"
        )


def _card_in(descriptor: int) -> dict[str, Any]:
    """Return what the holder of a lock has written of itself; empty if it has not yet."""
    try:
        return dict(json.loads(os.pread(descriptor, 65536, 0)))
    except (OSError, ValueError, TypeError):
        return {}


_HELD: set[int] = set()
"""Descriptors of held locks."""


def _close_in_child() -> None:
    """Keep a forked child from holding its parent's locks beyond the parent's life."""
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


os.register_at_fork(after_in_child=_close_in_child)
