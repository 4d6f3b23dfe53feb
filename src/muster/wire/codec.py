"""Messages as JSON lines. Unknown fields are ignored: a newer peer can talk to an older one.

Losses may be NaN or infinite, written as Python's `NaN`, `Infinity`, `-Infinity`. Every other number
must be finite and in range, and text must be Unicode: what a task says is stored, and must be writable.
"""

import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, fields
from typing import Any, get_args, get_origin, get_type_hints

from muster.wire.messages import Loss, Member, Message

MOST = 2**53
"""The largest number: floats hold every whole number up to it, and the sum of a thousand is below 64
bits."""

Check = Callable[[Any], Any]
"""Converts a JSON value to a field's value, or raises `BadMessageError`."""


class BadMessageError(ValueError):
    """A line that is not a message, or a message that JSON cannot hold."""


def encode(message: Message) -> bytes:
    """Encode a message as a JSON line with its newline."""
    kind = type(message)
    record = {"kind": kind.__name__} | {name: getattr(message, name) for name in _NAMES[kind]}
    try:
        return json.dumps(record, separators=(",", ":"), default=_member).encode() + b"\n"
    except (TypeError, ValueError) as problem:
        raise BadMessageError(f"{kind.__name__} cannot be written as JSON: {problem}") from problem


def decode(line: bytes) -> Message:
    """Decode a line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as problem:
        raise BadMessageError(f"not JSON: {_short(line)}") from problem
    if not isinstance(record, dict):
        raise BadMessageError(f"not a JSON object: {_short(line)}")
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise BadMessageError(f"unknown kind of message: {kind!r}")
    message: Message = _KINDS[kind](record)
    return message


def _member(value: Any) -> dict[str, Any]:
    """Convert what JSON cannot write itself: members."""
    if isinstance(value, Member):
        return asdict(value)
    raise TypeError(f"a value of type {type(value).__name__}")


def _short(line: bytes) -> str:
    return repr(line[:80]) + ("..." if len(line) > 80 else "")


def _builder(kind: type[Any]) -> Check:
    """Return a function that builds a dataclass from a record."""
    hints = get_type_hints(kind, include_extras=True)
    checks = [
        (field.name, _check(hints[field.name]), field.default is MISSING) for field in fields(kind)
    ]

    def build(record: Any) -> Any:
        if not isinstance(record, dict):
            raise BadMessageError(f"{kind.__name__}: an object is needed, not {record!r:.80}")
        values: dict[str, Any] = {}
        for name, check, needed in checks:
            if name in record:
                try:
                    values[name] = check(record[name])
                except BadMessageError as problem:
                    raise BadMessageError(f"{kind.__name__}.{name}: {problem}") from problem
            elif needed:
                raise BadMessageError(f"{kind.__name__}: field {name!r} is missing")
        return kind(**values)

    return build


def _check(hint: Any) -> Check:
    if get_origin(hint) is tuple:
        return _tuple_of(_check(get_args(hint)[0]))
    if get_origin(hint) is dict:
        return _mapping
    if hint is Member:
        return _builder(Member)
    scalars: dict[Any, Check] = {Loss: _number, float: _quantity, int: _count, str: _text}
    return scalars.get(hint) or _exactly(hint)


def _exactly(kind: type[Any]) -> Check:
    def check(value: Any) -> Any:
        # Not isinstance: True is an int, and a step is never True.
        if type(value) is not kind:
            raise BadMessageError(f"{kind.__name__} is needed, not {value!r:.80}")
        return value

    return check


def _number(value: Any) -> float:
    if type(value) is not int and type(value) is not float:
        raise BadMessageError(f"a number is needed, not {value!r:.80}")
    try:
        return float(value)
    except OverflowError as problem:
        raise BadMessageError("a number that no float can hold") from problem


def _quantity(value: Any) -> float:
    number = _number(value)
    if not 0 <= number <= MOST:  # also refuses NaN
        raise BadMessageError(f"a number from 0 to 2**53 is needed, not {number}")
    return number


def _count(value: Any) -> int:
    number: int = _exactly(int)(value)
    if not 0 <= number <= MOST:
        raise BadMessageError("a count from 0 to 2**53 is needed")
    return number


def _text(value: Any) -> str:
    text: str = _exactly(str)(value)
    if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
        raise BadMessageError("text with half a surrogate pair")
    return text


def _mapping(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = _exactly(dict)(value)
    _refuse_unwritable(found)
    return found


def _refuse_unwritable(value: Any) -> None:
    """Refuse what no store could hold, at any depth."""
    if isinstance(value, dict):
        for key, each in value.items():
            _text(key)
            _refuse_unwritable(each)
    elif isinstance(value, list):
        for each in value:
            _refuse_unwritable(each)
    elif isinstance(value, str):
        _text(value)
    elif isinstance(value, int | float) and not abs(value) <= 2**63:
        raise BadMessageError("a number that is not finite, or longer than 64 bits")


def _tuple_of(check: Check) -> Check:
    def build(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise BadMessageError(f"a list is needed, not {value!r:.80}")
        return tuple(check(one) for one in value)

    return build


_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in get_args(Message)}
_KINDS: dict[str, Check] = {kind.__name__: _builder(kind) for kind in get_args(Message)}
