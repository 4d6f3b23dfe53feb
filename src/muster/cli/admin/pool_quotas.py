"""`muster pool set`: from the amounts given to whole quotas."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from muster.cli.parse import parsed
from muster.files.errors import one_of
from muster.files.source.quantity import MAX_TASKS, parse_number, parse_whole
from muster.wire.records import PoolRecord, QuotaRecord

Quotas = dict[str, dict[str, int | float | None]]
"""By device type, as the API takes them."""

Given = Sequence[str] | None
"""`4` for the only device type, `V100:4` for one of several."""

T = TypeVar("T")

NO_LIMIT = "none"


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
