"""A YAML file as plain data, with the line of every part.

The file is read event by event, without YAML's types: a scalar stays text, so
that `007`, `no` and `12:30` mean what they say and every field decides what it accepts. Anchors,
aliases and tags are refused: no file needs them, and a kilobyte can unfold into gigabytes.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from muster.files.errors import InputError, Loc, dotted

MAX_FILE_BYTES = 1_000_000
"""A file of 1,000 nodes, one line each, is below a tenth of this."""

MAX_DEPTH = 10
"""Twice what the deepest valid file needs."""

NO_VALUE = "has no value; add one or remove the line"

Data = str | list["Data | None"] | dict[str, "Data | None"]

# The C parser is some twenty times as fast; some builds of PyYAML lack it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BARE_RANGE = re.compile(r"\{[^}]*?[\s{,]([A-Za-z0-9._-]+\[[0-9,-]+\])")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


@dataclass(frozen=True, slots=True)
class Source:
    path: str
    data: Data
    lines: dict[Loc, int]

    def known(self, loc: Loc) -> Loc:
        """Return the part of a place that exists in the file."""
        while loc and loc not in self.lines:
            loc = loc[:-1]
        return loc

    def line(self, loc: Loc) -> int:
        """Return the line of a place, or of the nearest one around it."""
        return self.lines.get(self.known(loc), 1)

    def error(self, loc: Loc, problem: str) -> InputError:
        return InputError.at(self.path, problem, line=self.line(loc), field=dotted(loc))


def read_source(path: Path, nullable: str | None = None) -> Source:
    """Read a file that is one plain YAML document; InputError otherwise.

    Keys of the top-level mapping `nullable` may have no value.
    """
    text = _decoded(_contents(path), str(path))
    reader = _Reader(str(path), _events(text, str(path)), nullable)
    root = reader.document()
    if root is None:
        raise InputError.at(str(path), "is empty")
    return Source(str(path), root, reader.lines)


def read_value(text: str, name: str) -> Data:
    """Read one value as a file would have it: text, a list or a mapping; errors name `name`."""
    value = _Reader(name, _events(text, name), None).document()
    if value is None:
        raise InputError.at(name, "has no value")
    return value


def source_of(record: Mapping[str, Any]) -> Source:
    """Return a record that has no file as a source: the position of a top field is its line."""
    lines: dict[Loc, int] = {(): len(record)}

    def walk(value: object, loc: Loc, line: int) -> None:
        lines[loc] = line
        if isinstance(value, dict | list):
            for step, each in value.items() if isinstance(value, dict) else enumerate(value):
                walk(each, (*loc, step), line)

    for line, (key, value) in enumerate(record.items()):
        walk(value, (key,), line)
    return Source("", dict(record), lines)


def _contents(path: Path) -> bytes:
    """Read a regular file; its size is checked first."""
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise InputError.at(str(path), "is a directory, not a file")
        if not stat.S_ISREG(about.st_mode):
            raise InputError.at(str(path), "is not a regular file")
        if about.st_size > MAX_FILE_BYTES:
            size = about.st_size / 1e6
            raise InputError.at(str(path), f"is too large: {size:.1f} MB (limit: 1 MB)")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError.at(str(path), "does not exist") from None
    except OSError as error:
        raise InputError.at(str(path), f"cannot be read: {error.strerror}") from None
    except InputError:
        raise
    except ValueError:  # a path with a null character
        raise InputError.at(str(path), "is not a path") from None


def _decoded(raw: bytes, path: str) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError.at(path, "is not UTF-8 text", line=line) from None
    bad = _FORBIDDEN.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise InputError.at(path, f"contains the character U+{ord(bad[0]):04X}", line=line)
    return text


def _events(text: str, path: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem = f"is not valid YAML: {error.problem}{_range_hint(text, line)}"
        raise InputError.at(path, problem, line=line) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        raise InputError.at(path, "is not valid YAML") from None


def _range_hint(text: str, line: int | None) -> str:
    """Return a hint where YAML takes the bracket of a range between braces for a list."""
    around = text.splitlines()[max(0, (line or 1) - 2) : line or 1]
    found = _BARE_RANGE.search("\n".join(around))
    return f' (between {{ }} a range needs quotes: "{found[1]}")' if found else ""


@dataclass(slots=True)
class _Reader:
    """Builds data from events. `MAX_DEPTH` bounds the recursion."""

    path: str
    events: Iterator[yaml.Event]
    nullable: str | None
    lines: dict[Loc, int] = field(default_factory=dict)

    def document(self) -> Data | None:
        """Return the only document; None if it is empty."""
        root: Data | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                raise self._error((), "contains more than one document", event)
            if isinstance(event, yaml.NodeEvent):
                root = self._value(event, ())
        return root

    def _value(self, event: yaml.Event, loc: Loc) -> Data | None:
        self._refuse_tricks(event, loc)
        if isinstance(event, yaml.ScalarEvent):
            if not (event.implicit[0] and event.value in _NULLS):  # plain, not quoted
                self.lines.setdefault(loc, _line(event))
                return event.value
            if loc and loc[:-1] != (self.nullable,):
                raise self._error(loc, NO_VALUE, event)
            return None
        if len(loc) >= MAX_DEPTH:
            raise self._error((), f"is nested deeper than {MAX_DEPTH} levels", event)
        self.lines.setdefault(loc, _line(event))
        return self._mapping(loc) if isinstance(event, yaml.MappingStartEvent) else self._list(loc)

    def _list(self, loc: Loc) -> Data:
        items: list[Data | None] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            items.append(self._value(event, (*loc, len(items))))
        return items

    def _mapping(self, loc: Loc) -> Data:
        found: dict[str, Data | None] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._key(event, loc)
            self.lines[*loc, key] = _line(event)
            found[key] = self._value(next(self.events), (*loc, key))
        return found

    def _key(self, event: yaml.Event, loc: Loc) -> str:
        self._refuse_tricks(event, loc)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error(loc, "a key must be a scalar", event)
        if not event.value:
            raise self._error(loc, "a key is empty", event)
        at = (*loc, event.value)
        if at in self.lines:
            raise self._error(at, f"is given twice (first on line {self.lines[at]})", event)
        return event.value

    def _refuse_tricks(self, event: yaml.Event, loc: Loc) -> None:
        if isinstance(event, yaml.AliasEvent):
            raise self._error(loc, f"aliases such as *{event.anchor} are not allowed", event)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            raise self._error(loc, f"anchors such as &{event.anchor} are not allowed", event)
        if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)) and event.tag:
            raise self._error(loc, "tags such as !!str are not allowed", event)

    def _error(self, loc: Loc, problem: str, event: yaml.Event) -> InputError:
        return InputError.at(self.path, problem, line=_line(event), field=dotted(loc))


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1
