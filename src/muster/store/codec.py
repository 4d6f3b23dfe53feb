"""Values to bytes and back, by type. Unknown fields are ignored.

Facts and records are JSON, readable with the database's own tools. JSON has no infinity or NaN: a fact
that holds one is rejected, a record gets null. Snapshots are MessagePack, which has both.
"""

from functools import cache
from typing import Any, Literal, TypeVar, get_args

import msgspec

from muster.model.task import Fact
from muster.store.errors import UnreadableError, UnwritableError

T = TypeVar("T")
Form = Literal["json", "msgpack"]
KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Fact)}
"""Types of facts by their name in the journal."""


def encode(value: object, form: Form = "msgpack") -> bytes:
    """Encode a value (dataclasses, tuples, mappings, enums, numbers, text)."""
    try:
        return msgspec.json.encode(value) if form == "json" else msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as problem:
        raise UnwritableError(f"cannot write {type(value).__name__}: {problem}") from problem


def decode(data: bytes | str, kind: type[T], form: Form = "msgpack") -> T:
    """Decode a value of a type."""
    wanted: Any = kind  # for mypy, types are not hashable
    try:
        found: T = _decoder(wanted, form).decode(data)
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as problem:
        name = getattr(kind, "__name__", kind)
        raise UnreadableError(f"cannot read {name}: {problem}") from problem
    return found


@cache
def _decoder(kind: Any, form: Form) -> Any:
    return msgspec.json.Decoder(kind) if form == "json" else msgspec.msgpack.Decoder(kind)


def encode_fact(fact: Fact) -> str:
    """Encode a fact as JSON; reject one that would not be read back the same."""
    data = encode(fact, "json")
    try:
        same = decode(data, type(fact), "json") == fact
    except UnreadableError as problem:
        raise UnwritableError(f"{type(fact).__name__} would not be read back: {problem}") from problem
    if not same:
        raise UnwritableError(
            f"{type(fact).__name__} would not be read back the same (a number that is not finite?)"
        )
    return data.decode()


def decode_fact(kind: str, body: str) -> Fact:
    """Decode the fact of a journal row."""
    if kind not in KINDS:
        raise UnreadableError(
            f"the journal holds a fact of unknown kind {kind!r}: written by a newer Muster"
        )
    fact: Fact = decode(body, KINDS[kind], "json")
    return fact


def encode_record(record: object) -> str:
    """Encode a record as JSON; numbers that are not finite become null, where the type allows it."""
    data = encode(record, "json")
    try:
        decode(data, type(record), "json")
    except UnreadableError as problem:
        raise UnwritableError(f"{type(record).__name__} would not be read back: {problem}") from problem
    return data.decode()


def decode_record(body: str, kind: type[T]) -> T:
    """Decode the record of a row."""
    return decode(body, kind, "json")
