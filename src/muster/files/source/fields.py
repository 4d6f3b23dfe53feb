"""Field types of the files: how each is read from text, and its JSON Schema."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from muster.files.errors import one_of, shown
from muster.files.source import quantity
from muster.files.source.quantity import Counts, Devices

T = TypeVar("T")
Schema = dict[str, Any]


class FileEntry(BaseModel):
    """A mapping of the file; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def optional(text: str, examples: list[Any] | None = None) -> Any:
    """Declare a field that may be left out."""
    return Field(default=None, description=text, examples=examples)


def preset(default: str, text: str) -> Any:
    """Declare a field with a default that is parsed like the field."""
    return Field(default=default, validate_default=True, description=text)


def scalar(parse: Callable[[str], T]) -> PlainValidator:
    """Read one value, not a list or a mapping."""

    def read(value: object) -> T:
        return parse(single(value))

    return PlainValidator(read)


def single(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"must be one value, not a {'list' if isinstance(value, list) else 'mapping'}")


def whole(least: int, most: int) -> PlainValidator:
    return scalar(lambda text: quantity.parse_whole(text, least, most))


def above_zero(parse: Callable[[str], T]) -> PlainValidator:

    def read(text: str) -> T:
        amount = parse(text)
        if not amount:
            raise ValueError(f"must be above 0, not {shown(text)}")
        return amount

    return scalar(read)


def word(kind: str, words: Iterable[str]) -> PlainValidator:
    """Read one word of a fixed set."""
    valid = tuple(words)

    def read(text: str) -> str:
        if text not in valid:
            raise ValueError(one_of(text, kind, valid))
        return text

    return scalar(read)


def short_for(key: str) -> Callable[[object], object]:
    """Read a bare value as a mapping with only this key."""

    def expand(value: object) -> object:
        return {key: value} if isinstance(value, str) else value

    return expand


def text_schema(pattern: str, *examples: str) -> WithJsonSchema:
    schema: Schema = {"type": "string", "pattern": pattern}
    return WithJsonSchema({**schema, "examples": list(examples)} if examples else schema)


def whole_schema(least: int, most: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "integer", "minimum": least, "maximum": most})


def range_schema(pattern: str, *examples: str | int, most: int = quantity.MAX_TASKS) -> WithJsonSchema:
    """Return the schema of a count, or of a text that matches a pattern."""
    bare = {"type": "integer", "minimum": 0, "maximum": most}
    text = {"type": "string", "pattern": pattern}
    return WithJsonSchema({"anyOf": [bare, text], "examples": list(examples)})


_N = r"[0-9]+(\.[0-9]+)?"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}"
_COUNTS = r"[0-9]+( *\.\. *[0-9]+)?"
_SIZE = rf"^{_N} *([KMGTP]i?|k)?B$"
_RATE = rf"^{_N} *(([KMGTP]i?|k)?B|[kKMGTP]?bit)/s$"
_TIME = rf"^({_N}(d|h|m|s|ms|us|ns) *)+$"

Name = Annotated[str, scalar(quantity.parse_name), text_schema(f"^{_NAME}$")]
User = Annotated[str, scalar(quantity.parse_user), text_schema("^[A-Za-z0-9_.@+-]+$", "ada")]
Names = Annotated[str, scalar(str), text_schema(r"^[A-Za-z0-9._\[\],-]+$", "r01", "r[01-08]")]
Size = Annotated[int, scalar(quantity.parse_size), text_schema(_SIZE, "24GB", "512MiB")]
SomeSize = Annotated[int, above_zero(quantity.parse_size), text_schema(_SIZE, "24GB", "512MiB")]
Rate = Annotated[float, scalar(quantity.parse_rate), text_schema(_RATE, "16GB/s", "100Gbit/s")]
Time = Annotated[float, scalar(quantity.parse_duration), text_schema(_TIME, "5us", "30s")]
SomeTime = Annotated[
    float, above_zero(quantity.parse_duration), text_schema(_TIME, "2h", "1h30m", "250ms")
]
Operations = Annotated[
    float,
    scalar(quantity.parse_operations),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": rf"^{_N} *[KMGTP]?$"},
            ],
            "examples": ["8.2G", 120000000],
        }
    ),
]
Part = Annotated[
    float,
    scalar(quantity.parse_part),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]
Percentage = Annotated[float, scalar(quantity.parse_percentage), text_schema(rf"^{_N} *%$", "5%")]
Cores = Annotated[
    int,
    scalar(quantity.parse_cores),
    WithJsonSchema({"type": "number", "minimum": 0, "examples": [4, 0.5]}),
]
SomeCores = Annotated[
    int,
    above_zero(quantity.parse_cores),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "examples": [40]}),
]
Number = Annotated[
    float, scalar(quantity.parse_number), WithJsonSchema({"type": "number", "minimum": 0})
]
Flag = Annotated[bool, scalar(quantity.parse_flag), WithJsonSchema({"type": "boolean"})]
CountsField = Annotated[Counts, scalar(quantity.parse_counts), range_schema(f"^{_COUNTS}$", 4, "1..8")]
DevicesField = Annotated[
    Devices,
    scalar(quantity.parse_devices),
    range_schema(f"^({_NAME} *: *)?{_COUNTS}$", 4, "1..8", "V100:4", "V100:1..8"),
]


class LinkEntry(FileEntry):
    """A link in one direction. A bare rate is its bandwidth."""

    bandwidth: Rate | None = optional("Bytes or bits per second.")
    latency: Time | None = optional("Time of the smallest message.")


LinkField = Annotated[
    LinkEntry,
    BeforeValidator(short_for("bandwidth"), json_schema_input_type=Rate | LinkEntry),
]
