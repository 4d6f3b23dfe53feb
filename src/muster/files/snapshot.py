"""Snapshots: everything that one scheduling cycle decides on, in one JSON file.

A daemon writes one on request; `muster play` decides on it again, with any policy. Values are written
with the names of their classes, since views hold values of open types (speeds, policies' memories).
Only values of the packages below can be read back. Environments and commands of jobs are left out: they
may hold secrets, and no decision depends on them.
"""

import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

import muster.perf.learnt.tables  # noqa: F401 (the speeds of live jobs)
from muster import __version__
from muster.core.cycle.cycle import Decisions, Memory, decide
from muster.core.state.check import check
from muster.files.errors import InputError
from muster.model.job import Origin
from muster.model.view import JobState, View
from muster.policy.registry import POLICIES

FORMAT = "muster-snapshot"
PACKAGES = ("muster.model", "muster.core", "muster.place", "muster.perf", "muster.policy")
"""Whose dataclasses and enums a snapshot may hold."""
KIND = "is"
"""The key under which a value's class stands."""


@dataclass(frozen=True, slots=True)
class CycleSnapshot:
    now: float
    policy: str
    view: View
    """With outlooks of its jobs."""
    memory: Memory

    def decide(self, policy: str | None = None) -> Decisions:
        """Run one checked cycle; another policy begins without the memory of the first."""
        name = policy or self.policy
        memory = self.memory if name == self.policy else replace(self.memory, policy=None)
        decided = decide(POLICIES[name], self.view, self.now, memory)
        check(self.view, decided)
        return decided


def encode_snapshot(snapshot: CycleSnapshot) -> bytes:
    """Write a snapshot as JSON, without commands and environments."""
    jobs = {key: _without_secrets(state) for key, state in snapshot.view.jobs.items()}
    view = replace(snapshot.view, jobs=jobs)
    body = {
        "format": FORMAT,
        "muster": __version__,
        "now": snapshot.now,
        "policy": snapshot.policy,
        "view": _plain(view),
        "memory": _plain(snapshot.memory),
    }
    return msgspec.json.encode(body)


def is_snapshot(path: Path) -> bool:
    """Whether a file begins as a snapshot does."""
    try:
        with path.open("rb") as file:
            return FORMAT.encode() in file.read(100)
    except OSError:
        return False  # reading it will say why


def load_snapshot(path: Path) -> CycleSnapshot:
    """Read a snapshot; InputError if it is damaged or of a version too different from this one."""
    try:
        body = msgspec.json.decode(path.read_bytes())
        return CycleSnapshot(body["now"], body["policy"], _value(body["view"]), _value(body["memory"]))
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError.at(str(path), f"cannot be read as a snapshot: {error}") from None


def _without_secrets(state: JobState) -> JobState:
    program = replace(state.job.program, environ=(), origin=Origin())
    return replace(state, job=replace(state.job, command=(), program=program))


def _plain(value: Any) -> Any:  # noqa: PLR0911 (one for each kind of value)
    """A value as JSON has it."""
    if isinstance(value, Enum):
        return {KIND: _named(type(value)), "value": value.value}
    if is_dataclass(value) and not isinstance(value, type):
        kept = {f.name: _plain(getattr(value, f.name)) for f in fields(value) if _kept(f, value)}
        return {KIND: _named(type(value)), **kept}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != KIND for key in value):
            return {key: _plain(each) for key, each in value.items()}
        return {KIND: "map", "items": [[_plain(key), _plain(each)] for key, each in value.items()]}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", ())  # of a named one
        if names:
            parts = {name: _plain(part) for name, part in zip(names, value, strict=True)}
            return {KIND: _named(type(value)), **parts}
        return [_plain(each) for each in value]
    if isinstance(value, float) and not isfinite(value):
        return {KIND: "float", "value": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a snapshot cannot hold a {type(value).__name__}")


def _kept(each: "Field[Any]", value: object) -> bool:
    """Leave out defaults and what a value only keeps to save time."""
    if not each.init or each.metadata.get("cache"):
        return False
    return each.default is MISSING or getattr(value, each.name) != each.default


def _value(plain: Any) -> Any:
    """The value that became this JSON."""
    match plain:
        case list():
            return tuple(_value(each) for each in plain)
        case {"is": str(kind), **rest}:
            return _named_value(kind, rest)
        case dict():
            return {key: _value(each) for key, each in plain.items()}
        case _:
            return plain


def _named_value(kind: str, plain: dict[Any, Any]) -> Any:
    if kind == "map":
        return {_value(key): _value(each) for key, each in plain["items"]}
    if kind == "float":
        return float(plain["value"])
    known = _classes().get(kind)
    if known is None:
        raise ValueError(f"it holds a {kind}, which this version does not know")
    if issubclass(known, Enum):
        return known(plain["value"])
    if not (is_dataclass(known) or issubclass(known, tuple)):
        raise ValueError(f"{kind} is not a value")
    return known(**{name: _value(each) for name, each in plain.items()})


def _named(kind: type[Any]) -> str:
    name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    if _classes().get(name) is not kind:
        raise TypeError(f"a snapshot cannot hold a {name}")
    return name


@cache
def _classes() -> Mapping[str, type[Any]]:
    """The classes a snapshot may hold, by module and name; importing this module has loaded them."""
    return {
        f"{each.__module__.rpartition('.')[2]}.{each.__name__}": each
        for name, module in list(sys.modules.items())
        if name.startswith(PACKAGES)
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__.startswith(PACKAGES)
    }
