"""How a job file relates a job to others: `after`, which it waits for, and `labels`, to find it by."""

import re
from typing import Annotated

from pydantic import PlainValidator, WithJsonSchema

from muster.files.errors import one_of, shown
from muster.files.source.quantity import parse_name, parse_user
from muster.model.job import Dependency, When

MAX_AFTER = 1_000
MAX_LABELS = 64
LONGEST_VALUE = 200
WHENS = tuple(each.value for each in When)

_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?")


def parse_after(value: object) -> tuple[Dependency, ...]:
    """Read `prep`, `[prep, other:any]` or `{prep: ok, other: any}`."""
    if isinstance(value, dict):
        found = [dependency(f"{job}:{_word(when)}") for job, when in value.items()]
    else:
        found = [dependency(_word(each)) for each in (value if isinstance(value, list) else [value])]
    names = [each.job for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"names {shown(twice)} twice")
    if len(found) > MAX_AFTER:
        raise ValueError(f"names more than {MAX_AFTER:,} jobs")
    return tuple(found)


def _word(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError("must be a job, a list of jobs, or a mapping such as {prep: ok, other: any}")


def dependency(text: str) -> Dependency:
    """Read one job that must end first: `prep`, `12:any`, `ada/prep:failed`."""
    name, _, when = text.partition(":")
    user, slash, own = name.rpartition("/")
    if slash:
        parse_user(user)
    parse_name(own)
    if (when or When.OK) not in WHENS:
        raise ValueError(one_of(when, "way to end", WHENS))
    return Dependency(name, When(when or When.OK))


def parse_labels(value: object) -> tuple[tuple[str, str], ...]:
    """Read `{team: vision, run: a}`, by key."""
    if not isinstance(value, dict):
        raise ValueError("must be a mapping of keys to values, for example {team: vision}")
    if len(value) > MAX_LABELS:
        raise ValueError(f"has more than {MAX_LABELS} labels")
    return tuple(sorted(label(key, text) for key, text in value.items()))


def label(key: str, text: object) -> tuple[str, str]:
    """Check a label."""
    if not _KEY.fullmatch(key):
        problem = "up to 63 letters, digits and . _ / -, a letter or digit first and last"
        raise ValueError(f"{shown(key)} is not a label's key: {problem}")
    if not isinstance(text, str):
        raise ValueError(f"{key} must be one value")
    if len(text) > LONGEST_VALUE or not text.isprintable():
        raise ValueError(f"{key} must be at most {LONGEST_VALUE} printable characters")
    return key, text


_JOB = {"type": ["string", "integer"]}
After = Annotated[
    tuple[Dependency, ...],
    PlainValidator(parse_after),
    WithJsonSchema(
        {
            "anyOf": [
                _JOB,
                {"type": "array", "items": _JOB},
                {"type": "object", "additionalProperties": {"enum": list(WHENS)}},
            ]
        }
    ),
]
Labels = Annotated[
    tuple[tuple[str, str], ...],
    PlainValidator(parse_labels),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"pattern": f"^{_KEY.pattern}$"},
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        }
    ),
]
