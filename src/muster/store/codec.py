"""Values to bytes and back, by their types. Fields of a newer version are ignored.

Facts and records are JSON, so that a database's own tools show them. JSON has no infinity and no NaN:
a fact that holds one is refused, a record gets null. Snapshots are MessagePack, which has both.
"""

from functools import cache
from typing import Any, Literal, TypeVar, get_args

import msgspec

from muster.model.task import Fact
from muster.store.errors import UnreadableError, UnwritableError

T = TypeVar("T")
Form = Literal["json", "msgpack"]
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Fact)}
"""Every kind of fact, by the name it has in the journal."""


def encode(value: object, form: Form = "msgpack") -> bytes:
    """A value (dataclasses, tuples, mappings, enums, numbers, texts) as bytes."""
    try:
        return msgspec.json.encode(value) if form == "json" else msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as problem:
        raise UnwritableError(f"{type(value).__name__} cannot be written: {problem}") from problem


def decode(data: bytes | str, kind: type[T], form: Form = "msgpack") -> T:
    """The value of a type that became these bytes."""
    wanted: Any = kind  # mypy does not count types among what has a hash
    try:
        found: T = _decoder(wanted, form).decode(data)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as problem:
        name = getattr(kind, "__name__", kind)
        raise UnreadableError(f"no {name} can be read: {problem}") from problem
    return found


@cache
def _decoder(kind: Any, form: Form) -> Any:
    return msgspec.json.Decoder(kind) if form == "json" else msgspec.msgpack.Decoder(kind)


def encode_fact(fact: Fact) -> str:
    """A fact as JSON. What would not come back the same is refused now: later is too late."""
    data = encode(fact, "json")
    try:
        same = decode(data, type(fact), "json") == fact
    except UnreadableError as problem:
        raise UnwritableError(f"{type(fact).__name__} would not be read back: {problem}") from problem
    if not same:
        raise UnwritableError(
            f"{type(fact).__name__} would be read back as another (is a number in it not finite?)"
        )
    return data.decode()


def decode_fact(kind: str, body: str) -> Fact:
    """The fact of a row of the journal."""
    if kind not in KINDS:
        raise UnreadableError(
            f"the journal holds a fact of the unknown kind {kind!r}: a newer Muster wrote it"
        )
    fact: Fact = decode(body, KINDS[kind], "json")
    return fact


def encode_record(record: object) -> str:
    """A record as JSON; a number that is not finite becomes null, and must be allowed to be."""
    data = encode(record, "json")
    try:
        decode(data, type(record), "json")
    except UnreadableError as problem:
        raise UnwritableError(f"{type(record).__name__} would not be read back: {problem}") from problem
    return data.decode()


def decode_record(body: str, kind: type[T]) -> T:
    """The record of a row."""
    return decode(body, kind, "json")
