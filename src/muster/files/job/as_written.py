"""JSON in the form in which files are read: every scalar is text.

So `4` and `"4"`, `true` and `"true"` mean the same in a request, and one set of rules checks both.
"""

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any

from muster.files.errors import Loc
from muster.files.source.faults import Fault, FaultsError
from muster.files.source.yaml_source import MAX_DEPTH, NO_VALUE, Data

MAX_VALUES = 20_000
"""The largest models have some 2,000 tensors of 3 values; checking this many values takes 0.3 s."""

_LONGEST_NUMBER = 128
"""Bits: far above every bound, far below what is slow to print."""


def as_written(record: Mapping[str, Any], nullable: str) -> tuple[dict[str, Data | None], list[Fault]]:
    """Return the record with its scalars as text, and the faults; null is allowed below `nullable`.

    Raises FaultsError at once for a record with too many values.
    """
    faults: list[Fault] = []
    held = 0

    def text(value: object, loc: Loc) -> Data | None:
        try:
            return _scalar(value, loc, nullable)
        except ValueError as error:
            faults.append(Fault(loc, str(error)))
            return None

    def walk(value: object, loc: Loc) -> Data | None:
        nonlocal held
        held += 1
        if held > MAX_VALUES:
            raise FaultsError([Fault((), f"has more than {MAX_VALUES} values")])
        if len(loc) > MAX_DEPTH:
            faults.append(Fault(loc[:1], f"is nested deeper than {MAX_DEPTH} levels"))
            return None
        if isinstance(value, Mapping):
            return {str(key): walk(each, (*loc, str(key))) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [walk(each, (*loc, place)) for place, each in enumerate(value)]
        return text(value, loc)

    data = {str(key): walk(value, (str(key),)) for key, value in record.items()}
    return data, faults


def _scalar(value: object, loc: Loc, nullable: str) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        if len(loc) == 2 and loc[0] == nullable:
            return None
        raise ValueError(NO_VALUE)
    if isinstance(value, int | float):
        return _number(value)
    raise ValueError(f"is a {type(value).__name__}, not a JSON value")


def _number(value: int | float) -> str:
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError("is not a finite number")
        if not value.is_integer():
            return format(Decimal(repr(value)), "f")
        value = int(value)  # JSON does not tell 4.0 from 4
    if value.bit_length() > _LONGEST_NUMBER:
        raise ValueError("is too large a number")
    return str(value)
