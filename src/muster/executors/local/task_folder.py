"""The folder of one task, whose files are the truth: order, claim, start and end."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from muster.executors.accounts import Account
from muster.executors.containers import BWRAP, clean_command, container_command
from muster.executors.local.identity import ProcessIdentity
from muster.executors.local.shim import (
    BEGUN,
    CLAIM,
    ENDED,
    ORDER,
    UMASK,
    boot_id,
    claim,
    moment,
    record,
    uptime,
)
from muster.executors.private_folder import make_private
from muster.model.task import WORK, TaskOrder

SETTLED = "settled"
"""Whoever had to hear of the task's end and to get its log has both."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When something happened on this machine: by its clock, and since its boot."""

    at: float
    up: float = 0.0
    boot: str = ""

    @property
    def age(self) -> float:
        """s since then; clocks that were set in between matter only across boots."""
        passed = uptime() - self.up if self.boot and self.boot == boot_id() else time.time() - self.at
        return max(0.0, passed)


@dataclass(frozen=True, slots=True)
class Begun:
    process: ProcessIdentity
    moment: Moment


@dataclass(frozen=True, slots=True)
class End:
    moment: Moment
    code: int | None = None
    signal: int | None = None
    error: str = ""
    begun: bool = True
    oom: bool = False


class TaskFolder:
    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def ordered(self) -> bool:
        return (self.path / ORDER).exists()

    @property
    def claimed(self) -> bool:
        """Whether a shim has claimed the order, or it was voided."""
        return (self.path / CLAIM).exists()

    @property
    def living(self) -> bool:
        """Whether the task, or a shim about to start it or record its end, still runs."""
        shim, begun = self.shim(), self.begun()
        processes = (shim, begun.process if begun else None)
        return self.end() is None and any(process and process.alive for process in processes)

    def log(self) -> str:
        """The name of the task's log; empty if unknown."""
        return str((self._read(ORDER) or {}).get("log", ""))

    @property
    def settled(self) -> bool:
        return (self.path / SETTLED).exists()

    def settle(self) -> None:
        """Record that nobody waits for word of the task any more."""
        with contextlib.suppress(OSError):  # pruned, or no room: then it is told again
            (self.path / SETTLED).touch(mode=0o600)

    def lease(self) -> float:
        """s without word from the daemon after which it is killed; 0: never."""
        return float((self._read(ORDER) or {}).get("lease", 0.0))

    def groups(self) -> list[str]:
        """The task's cgroups."""
        return [str(path) for path in (self._read(ORDER) or {}).get("groups", ())]

    def memory(self) -> int:
        """Bytes the task is limited to; 0: no limit."""
        return int((self._read(ORDER) or {}).get("memory", 0))

    def ports(self) -> tuple[int, ...]:
        """Ports that the task was given to bind."""
        return tuple(int(port) for port in (self._read(ORDER) or {}).get("ports", ()))

    def put_order(
        self,
        order: TaskOrder,
        output: Path,
        groups: Sequence[Path] = (),
        account: Account | None = None,
        umask: int | None = None,
        pack: Path | None = None,
        heard: Path | None = None,
    ) -> None:
        """Write the order, unless there is one. `pack`: the shipped folder to unpack; `heard`: the file
        that tells when the daemon was last heard."""
        make_private(self.path)
        root = (account.uid if account else os.geteuid()) == 0
        name, terminal = _container_name(self.path), order.terminal is not None
        wrap = container_command(order, root=root, terminal=terminal, name=name)
        content = {
            "argv": list(order.argv),
            "environ": {**(account.environ if account else {}), **order.environ},
            "folder": order.folder,
            "own_folder": order.own_folder,
            "log": order.log,
            "output": str(output),
            "private": order.private,
            "memory": order.memory,
            "ports": list(order.ports),
            "groups": [str(path) for path in groups],
            "account": _identifiers(account) if account else None,
            "umask": UMASK if account else umask,
            "lease": order.lease if heard else 0.0,
            "heard": str(heard or ""),
            "terminal": order.terminal,
            "wrap": wrap,
            "apart": wrap[:1] == [BWRAP],
            "clean": clean_command(wrap, name),
            "visit": container_command(order, root=root),
            "visit_on_terminal": container_command(order, root=root, terminal=True),
        }
        if pack is not None:
            content |= {"pack": str(pack), "unpack": str(Path(order.private) / WORK)}
        if not self.ordered:
            record(str(self.path / ORDER), content)

    def shim(self) -> ProcessIdentity | None:
        """The shim that has claimed the task, or None."""
        entry = self._read(CLAIM)
        return _identity(entry) if entry and not entry.get("void") else None

    def begun(self) -> Begun | None:
        """The task's process, or None before its start."""
        entry = self._read(BEGUN)
        return None if entry is None else Begun(_identity(entry), _moment(entry))

    def end(self) -> End | None:
        """How it ended; None if it has not, or unrecorded."""
        entry = self._read(ENDED)
        if entry is None:
            return None
        return End(
            moment=_moment(entry),
            code=entry.get("code"),
            signal=entry.get("signal"),
            error=str(entry.get("error", "")),
            begun=bool(entry.get("begun", True)),
            oom=bool(entry.get("oom", False)),
        )

    def put_end(self, end: End) -> None:
        """Record an end that no shim has recorded, so that later readers agree."""
        entry = {"error": end.error, "begun": end.begun, "oom": end.oom}
        record(str(self.path / ENDED), entry | asdict(end.moment))

    def take_back(self) -> bool:
        """Void the order; False if a shim has claimed it."""
        if not self.ordered:
            return not self.claimed
        return claim({"void": True}, str(self.path)) or bool((self._read(CLAIM) or {}).get("void"))

    def remove(self) -> None:
        # Renamed first: a late shim finds all of it or nothing.
        aside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            self.path.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)

    def _read(self, name: str) -> dict[str, Any] | None:
        """A file's content; empty if a power failure has damaged it."""
        try:
            content = json.loads((self.path / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            return {}
        return content if isinstance(content, dict) else {}


def _identifiers(account: Account) -> dict[str, Any]:
    return {"uid": account.uid, "gid": account.gid, "groups": list(account.groups)}


def now() -> Moment:
    return Moment(**moment())


def _moment(entry: dict[str, Any]) -> Moment:
    return Moment(float(entry.get("at", 0.0)), float(entry.get("up", 0.0)), str(entry.get("boot", "")))


def _identity(entry: dict[str, Any]) -> ProcessIdentity:
    return ProcessIdentity(
        int(entry.get("pid", 0)), int(entry.get("ticks", 0)), str(entry.get("boot", ""))
    )


def _container_name(folder: Path) -> str:
    """Return a name that no task of another daemon on this machine has."""
    return f"muster-{folder.name}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"
