"""From the options to the changes, as the client takes them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from muster.cli.admin.deadline import seconds_until
from muster.cli.admin.pool_quotas import changed_quotas, changed_rules
from muster.cli.parse import parsed, policy_of
from muster.files.cluster.ranges import expand
from muster.files.errors import InputError, did_you_mean, one_of
from muster.files.source.quantity import MAX_PRIORITY, parse_name, parse_whole
from muster.wire.api.records import PoolRecord

AMOUNTS = ("reservation", "share", "limit")
RULES = ("policy", "aim", "devices_per_user")
FIELDS = (*AMOUNTS, "parent", *RULES)
"""What of a pool `--pool` may change."""


@dataclass(frozen=True, slots=True)
class WhatIfOptions:
    """What was typed."""

    policy: str | None = None
    pool: Sequence[str] = ()
    add: Sequence[str] = ()
    drain: Sequence[str] = ()
    submit: Sequence[Path] = ()
    priority: Sequence[str] = ()
    at: str | None = None
    by: str | None = None

    @property
    def any(self) -> bool:
        """Whether anything shall change."""
        listed = (self.pool, self.add, self.drain, self.submit, self.priority)
        return self.policy is not None or any(listed)


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """What the changes are made to."""

    pools: Sequence[PoolRecord] = ()
    types: Sequence[str] = field(default=())
    """Device types."""


def requested(options: WhatIfOptions, seen: ClusterSeen, now: datetime) -> dict[str, Any]:
    """Return the changes as `Client.what_if` takes them; InputError for one that says nothing."""
    _refuse_idle_times(options)
    at, by = (_moment(name, getattr(options, name), now) for name in ("at", "by"))
    return {
        "policy": None if options.policy is None else policy_of("--policy", options.policy),
        "pools": _pools(options.pool, seen),
        "add": [{**parsed("--add", text, _added), **_given(at=at)} for text in options.add],
        "drain": [
            {"names": list(parsed("--drain", text, expand)), **_given(at=at, by=by)}
            for text in options.drain
        ],
        "submit": [{"job": _there(path), **_given(at=at)} for path in options.submit],
        "priorities": dict(parsed("--priority", text, _priority) for text in options.priority),
    }


def said(options: WhatIfOptions) -> str:
    """Return the changes in words, as a heading."""
    parts = [f"policy {options.policy}"] if options.policy is not None else []
    parts += [*options.pool, *(f"add {each}" for each in options.add)]
    parts += [f"drain {each}" for each in options.drain]
    parts += [f"submit {each}" for each in options.submit]
    parts += [f"priority {each}" for each in options.priority]
    times = [f"{name} {text}" for name in ("at", "by") if (text := getattr(options, name))]
    return ", ".join(parts) + "".join(f" {each}" for each in times)


def _refuse_idle_times(options: WhatIfOptions) -> None:
    if options.at is not None and not (options.add or options.drain or options.submit):
        problem = "is for --add, --drain and --submit; other changes take effect at once"
        raise InputError.at("--at", problem)
    if options.by is not None and not options.drain:
        raise InputError.at("--by", "is for --drain: when the nodes must be empty")


def _moment(name: str, text: str | None, now: datetime) -> float | None:
    if text is None:
        return None
    return now.timestamp() + seconds_until(f"--{name}", text, now)


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError.at("--submit", f"no file {path}")
    return path


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _added(text: str) -> dict[str, Any]:
    names, colon, like = text.rpartition(":")
    if not colon:
        raise ValueError("needs what the nodes are like, such as gpu[17-20]:dgx1")
    return {"names": list(expand(names)), "like": parse_name(like)}


def _priority(text: str) -> tuple[str, int]:
    job, equals, number = text.rpartition("=")
    if not equals or not job:
        raise ValueError("needs a job and its priority, such as 12=5")
    return job, parse_whole(number, -MAX_PRIORITY, MAX_PRIORITY)


def _pools(texts: Sequence[str], seen: ClusterSeen) -> dict[str, dict[str, Any]]:
    given: dict[str, dict[str, list[str]]] = {}
    for text in texts:
        pool, name, value = parsed("--pool", text, _pool_field)
        given.setdefault(pool, {}).setdefault(name, []).append(value)
    return {pool: _pool(pool, fields, seen) for pool, fields in given.items()}


def _pool_field(text: str) -> tuple[str, str, str]:
    left, equals, value = text.partition("=")
    pool, dot, name = left.rpartition(".")
    if not (equals and dot and value):
        raise ValueError("needs a pool, what of it changes, and to what: research.reservation=32")
    if name not in FIELDS:
        raise ValueError(one_of(name, "part of a pool", FIELDS))
    return parse_name(pool), name, value


@contextmanager
def _told_of(pool: str) -> Iterator[None]:
    """Tell a fault with what was typed here: `muster pool set` has an option for each field."""
    try:
        yield
    except InputError as error:
        option, _, problem = str(error).partition(": ")
        field_name = option.removeprefix("--").replace("-", "_")
        raise InputError.at(f"--pool {pool}.{field_name}", problem) from None


def _pool(name: str, fields: dict[str, list[str]], seen: ClusterSeen) -> dict[str, Any]:
    before = next((each for each in seen.pools if each.name == name), None)
    if before is None and "parent" not in fields:
        near = did_you_mean(name, [each.name for each in seen.pools])
        problem = f"there is no pool {name!r}{near}; a new one needs its parent: {name}.parent=cluster"
        raise InputError.at("--pool", problem)
    last = {each: fields[each][-1] for each in ("parent", *RULES) if each in fields}
    with _told_of(name):
        quotas = changed_quotas(before, sorted(seen.types), *(fields.get(each) for each in AMOUNTS))
        rules = changed_rules(
            None, None, last.get("devices_per_user"), last.get("policy"), None, last.get("aim")
        )
    return _given(parent=last.get("parent"), quotas=quotas, **rules)
