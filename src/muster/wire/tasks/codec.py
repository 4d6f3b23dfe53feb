"""Messages as JSON lines. Unknown fields are ignored: a newer peer can talk to an older one.

A codec knows the messages of one direction or conversation; any other is refused. Fields are as long as
their type allows (`bounds.py`); their values are checked, for whoever sends them is not trusted.

Losses may be NaN or infinite, written as Python's `NaN`, `Infinity`, `-Infinity`. Every other number
must be finite and in range, and text must be Unicode: what a task says is stored, and must be writable.
"""

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from types import UnionType
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from muster.wire.bounds import UNBOUNDED, AtMost
from muster.wire.tasks.messages import Loss, Message

MOST = 2**53
"""The largest number: floats hold every whole number up to it, and the sum of a thousand is below 64
bits."""

Check = Callable[[Any], Any]
"""Converts a JSON value to a field's value, or raises `BadMessageError`."""


class BadMessageError(ValueError):
    """A line that is not a message, or a message that JSON cannot hold."""


DEPTH = 32
"""Mappings and lists inside each other at most."""

Kind = TypeVar("Kind")


class Codec(Generic[Kind]):
    """Writes and reads messages of these kinds; none has a field `kind`, which is the line's own."""

    def __init__(self, kinds: Sequence[type[Any]]) -> None:
        self._names = {kind: tuple(field.name for field in fields(kind)) for kind in kinds}
        self._kinds = {kind.__name__: kind for kind in kinds}
        self._builders: dict[str, Check] = {}
        """Made when a kind is first read: all of them would take a tenth of a daemon's start."""

    def encode(self, message: Kind) -> bytes:
        """Encode a message as a JSON line with its newline."""
        kind: type[Any] = type(message)
        record = {"kind": kind.__name__} | {name: getattr(message, name) for name in self._names[kind]}
        try:
            return json.dumps(record, separators=(",", ":"), default=_nested).encode() + b"\n"
        except (TypeError, ValueError) as problem:
            raise BadMessageError(f"{kind.__name__} cannot be written as JSON: {problem}") from problem

    def decode(self, line: bytes) -> Kind:
        """Decode a line."""
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise BadMessageError(f"not JSON: {_short(line)}") from problem
        if not isinstance(record, dict):
            raise BadMessageError(f"not a JSON object: {_short(line)}")
        kind = record.get("kind")
        if not isinstance(kind, str) or kind not in self._kinds:
            raise BadMessageError(f"unknown kind of message: {kind!r:.80}")
        build = self._builders.get(kind)
        if build is None:
            build = self._builders[kind] = _builder(self._kinds[kind])
        message: Kind = build(record)
        return message


def _nested(value: Any) -> dict[str, Any]:
    """Convert what JSON cannot write itself: a value inside a message."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__}")


def _short(line: bytes) -> str:
    return repr(line[:80]) + ("..." if len(line) > 80 else "")


def reader(kind: type[Any], without: Container[str] = (), text: AtMost = UNBOUNDED) -> Check:
    """Return a function that checks a record and returns the values of a dataclass's fields.

    `without`: fields that come from elsewhere; `text`: how long texts may be.
    """
    hints = get_type_hints(kind, include_extras=True)
    checks = [
        (field.name, _check(hints[field.name], text), _needed(field))
        for field in fields(kind)
        if field.name not in without
    ]

    def read(record: Any) -> dict[str, Any]:
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
        return values

    return read


def _builder(kind: type[Any]) -> Check:
    """Return a function that builds a dataclass from a record."""
    read = reader(kind)
    return lambda record: kind(**read(record))


def _needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _check(hint: Any, bound: AtMost = UNBOUNDED) -> Check:
    if get_origin(hint) is Annotated and isinstance(get_args(hint)[1], AtMost):
        hint, bound = get_args(hint)
    origin, inside = get_origin(hint), get_args(hint)
    if origin is tuple:
        count = None if inside[-1] is ... else len(inside)
        return _tuple_of(_check(inside[0], bound), bound, count)
    if origin is Mapping:
        return _mapping_of(_check(inside[1], bound), bound)
    if origin is dict:
        return _mapping(bound)
    if origin is UnionType and inside[1] is type(None):
        check = _check(inside[0], bound)
        return lambda value: None if value is None else check(value)
    if is_dataclass(hint):
        return _builder(hint)  # type: ignore[arg-type]
    scalars: dict[Any, Check] = {Loss: _number, float: _quantity, int: _count, str: _text(bound)}
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


def _text(bound: AtMost = UNBOUNDED) -> Check:
    def check(value: Any) -> str:
        text: str = _exactly(str)(value)
        if len(text) > bound.count:
            raise BadMessageError(f"{len(text)} characters, above the limit of {bound.count}")
        if not text.isascii() and any("\ud800" <= each <= "\udfff" for each in text):
            raise BadMessageError("text with half a surrogate pair")
        return text

    return check


_any_text = _text()


def _mapping(bound: AtMost) -> Check:
    def check(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = _exactly(dict)(value)
        entries = _writable(found, DEPTH)
        if entries > bound.count:
            raise BadMessageError(f"{entries} entries, above the limit of {bound.count}")
        return found

    return check


def _writable(value: Any, depth: int) -> int:
    """Count what is inside, at any depth; refuse what no store could hold."""
    if isinstance(value, dict | list):
        if not depth:
            raise BadMessageError(f"more than {DEPTH} lists or objects inside each other")
        for key in value if isinstance(value, dict) else ():
            _any_text(key)
        inside = value.values() if isinstance(value, dict) else value
        return len(value) + sum(_writable(each, depth - 1) for each in inside)
    if isinstance(value, str):
        _any_text(value)
    elif isinstance(value, int | float) and not abs(value) <= 2**63:
        raise BadMessageError("a number that is not finite, or longer than 64 bits")
    return 0


def _mapping_of(check: Check, bound: AtMost) -> Check:
    key = _text(bound)

    def build(value: Any) -> dict[str, Any]:
        found: dict[Any, Any] = _exactly(dict)(value)
        return {key(name): check(each) for name, each in found.items()}

    return build


def _tuple_of(check: Check, bound: AtMost, count: int | None) -> Check:
    def build(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise BadMessageError(f"a list is needed, not {value!r:.80}")
        if len(value) > bound.count:
            raise BadMessageError(f"{len(value)} items, above the limit of {bound.count}")
        if count is not None and len(value) != count:
            raise BadMessageError(f"{count} items are needed, not {len(value)}")
        return tuple(check(one) for one in value)

    return build


_tasks: Codec[Message] = Codec(get_args(Message))

encode = _tasks.encode
"""Encode a message between a coordinator and a task."""
decode = _tasks.decode
"""Decode a message between a coordinator and a task."""
