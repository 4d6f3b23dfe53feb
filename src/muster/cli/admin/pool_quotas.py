"""`muster pool set`: from the amounts given to whole quotas."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from muster.cli.parse import aim_of, parsed, policy_of
from muster.files.errors import InputError
from muster.files.source.quantity import (
    MAX_PRIORITY,
    MAX_TASKS,
    PoolAmount,
    parse_name,
    parse_number,
    parse_pool_amount,
    parse_whole,
)
from muster.model.pool import EVERY_TYPE
from muster.wire.api.records import PoolRecord, QuotaRecord

Quotas = dict[str, dict[str, int | float | None]]
"""By device type, as the API takes them."""

Given = Sequence[str] | None
"""`4` for the only device type, `V100:4` for one of several, `25%` of every type."""

T = TypeVar("T")

NO_LIMIT, EVERYBODY = "none", "everybody"


def changed_quotas(
    before: PoolRecord | None,
    types: Sequence[str],
    reservations: Given,
    shares: Given,
    limits: Given,
) -> Quotas:
    """Return the quotas of the types named, each with its other amounts unchanged."""
    held = {} if before is None else {quota.device_type: quota for quota in before.quotas}
    quotas: dict[str, QuotaRecord] = {}
    every = tuple(dict.fromkeys((*types, *held, EVERY_TYPE)))

    def of(device_type: str) -> QuotaRecord:
        default = replace(held.get(EVERY_TYPE, QuotaRecord("")), device_type=device_type)
        return quotas.get(device_type) or held.get(device_type) or default

    for device_type, amount in _each("--reservation", reservations, types, every, _devices):
        quotas[device_type] = replace(
            of(device_type), reservation=amount.devices, reservation_part=amount.part
        )
    for device_type, share in _each("--share", shares, types, every, parse_number):
        quotas[device_type] = replace(of(device_type), share=share)
    for device_type, limit in _each("--limit", limits, types, every, _limit):
        most = None if limit is None else limit.devices
        part = None if limit is None else limit.part
        quotas[device_type] = replace(of(device_type), limit=most, limit_part=part)
    return {device_type: _body(quota) for device_type, quota in quotas.items()}


def _body(quota: QuotaRecord) -> dict[str, int | float | None]:
    """Return a quota as the API takes it; parts only where there are any."""
    parts = {"reservation_part": quota.reservation_part, "limit_part": quota.limit_part}
    given = {name: part for name, part in parts.items() if part is not None}
    return {"reservation": quota.reservation, "share": quota.share, "limit": quota.limit, **given}


def changed_rules(
    allow: Given,
    max_priority: str | None,
    devices_per_user: str | None,
    policy: str | None = None,
    budget: str | None = None,
    aim: str | None = None,
) -> dict[str, Any]:
    """Return what changes about who may use the pool and who decides, as the client takes it."""
    rules: dict[str, Any] = {"allow": None if allow is None else _allowed(allow)}
    given = {"max_priority": max_priority, "devices_per_user": devices_per_user}
    given |= {"policy": policy, "budget": budget, "aim": aim}
    rules["lifted"] = [name for name, text in given.items() if text == NO_LIMIT]
    if max_priority not in (None, NO_LIMIT):
        rules["max_priority"] = parsed("--max-priority", max_priority, _priority)
    if devices_per_user not in (None, NO_LIMIT):
        rules["devices_per_user"] = parsed("--devices-per-user", devices_per_user, _some_devices)
    if policy not in (None, NO_LIMIT):
        rules["policy"] = policy_of("--policy", policy)
    if budget not in (None, NO_LIMIT):
        rules["budget"] = parsed("--budget", budget, parse_number)
    if aim not in (None, NO_LIMIT):
        rules["aim"] = aim_of("--aim", aim)
    return rules


def typed_changes(pool: str, typed: Mapping[str, str | Sequence[str] | None]) -> str:
    """Return what was typed of a pool as `muster whatif --pool` takes it."""
    given = {field: [each] if isinstance(each, str) else each for field, each in typed.items() if each}
    told = [f"{pool}.{field}={value}" for field, values in given.items() for value in values]
    return ", ".join(told) or f"pool {pool} unchanged"


def _allowed(names: Sequence[str]) -> list[str]:
    if EVERYBODY not in names:
        return list(names)
    if len(names) > 1:
        raise InputError.at("--allow", f"{EVERYBODY} allows all; leave the others out")
    return []


def _priority(text: str) -> int:
    return parse_whole(text, -MAX_PRIORITY, MAX_PRIORITY)


def _some_devices(text: str) -> int:
    return parse_whole(text, 1, MAX_TASKS)


def _each(
    option: str,
    texts: Given,
    types: Sequence[str],
    every: Sequence[str],
    parse: Callable[[str], T],
) -> Iterator[tuple[str, T]]:
    """Yield amounts by device type."""

    def amount(text: str) -> tuple[Sequence[str], T]:
        kind, colon, number = text.rpartition(":")
        if colon:  # types that are not there are the daemon's matter: they may still join
            return (parse_name(kind),), parse(number)
        if len(types) == 1:
            return types, parse(number)
        return _bare(option, number, types, every), parse(number)

    for text in texts or ():
        found, value = parsed(option, text, amount)
        yield from ((device_type, value) for device_type in found)


def _bare(option: str, number: str, types: Sequence[str], every: Sequence[str]) -> Sequence[str]:
    """Return the types meant where there is not one type: every one, of a share or a part."""
    if number.endswith("%") or option == "--share":
        return every
    raise ValueError(
        f"needs a type, such as {types[0] if types else 'V100'}:4, or a part of all, such as 25%"
    )


def _devices(text: str) -> PoolAmount:
    return parse_pool_amount(text, MAX_TASKS)


def _limit(text: str) -> PoolAmount | None:
    return None if text == NO_LIMIT else _devices(text)
