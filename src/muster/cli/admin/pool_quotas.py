"""`muster pool set`: from the amounts given to whole quotas."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from muster.cli.parse import parsed
from muster.files.errors import InputError, one_of
from muster.files.source.quantity import MAX_PRIORITY, MAX_TASKS, parse_number, parse_whole
from muster.wire.records import PoolRecord, QuotaRecord

Quotas = dict[str, dict[str, int | float | None]]
"""By device type, as the API takes them."""

Given = Sequence[str] | None
"""`4` for the only device type, `V100:4` for one of several."""

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

    def of(device_type: str) -> QuotaRecord:
        return quotas.get(device_type) or held.get(device_type) or QuotaRecord(device_type)

    for device_type, whole in _each("--reservation", reservations, types, _devices):
        quotas[device_type] = replace(of(device_type), reservation=whole)
    for device_type, share in _each("--share", shares, types, parse_number):
        quotas[device_type] = replace(of(device_type), share=share)
    for device_type, limit in _each("--limit", limits, types, _limit):
        quotas[device_type] = replace(of(device_type), limit=limit)
    return {
        device_type: {"reservation": each.reservation, "share": each.share, "limit": each.limit}
        for device_type, each in quotas.items()
    }


def changed_rules(
    allow: Given, max_priority: str | None, devices_per_user: str | None
) -> dict[str, Any]:
    """Return what changes about who may use the pool, as the client takes it."""
    rules: dict[str, Any] = {"allow": None if allow is None else _allowed(allow)}
    given = {"max_priority": max_priority, "devices_per_user": devices_per_user}
    rules["lifted"] = [name for name, text in given.items() if text == NO_LIMIT]
    if max_priority not in (None, NO_LIMIT):
        rules["max_priority"] = parsed("--max-priority", max_priority, _priority)
    if devices_per_user not in (None, NO_LIMIT):
        rules["devices_per_user"] = parsed("--devices-per-user", devices_per_user, _some_devices)
    return rules


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
    option: str, texts: Given, types: Sequence[str], parse: Callable[[str], T]
) -> list[tuple[str, T]]:
    def amount(text: str) -> tuple[str, T]:
        kind, colon, number = text.rpartition(":")
        return _type(kind if colon else None, types), parse(number)

    return [parsed(option, text, amount) for text in texts or ()]


def _type(given: str | None, types: Sequence[str]) -> str:
    if given is None:
        if len(types) != 1:
            raise ValueError(f"needs a type, such as {types[0] if types else 'V100'}:4")
        return types[0]
    if given not in types:
        raise ValueError(one_of(given, "device type of this cluster", types))
    return given


def _devices(text: str) -> int:
    return parse_whole(text, 0, MAX_TASKS)


def _limit(text: str) -> int | None:
    return None if text == NO_LIMIT else _devices(text)
