"""A YAML file as plain data, with the line of every part.

The file is read event by event, without recursion and without YAML's types: a scalar stays text, so
that `007`, `no` and `12:30` mean what they say and every field decides what it accepts. Anchors,
aliases and tags are refused: no file needs them, and a kilobyte can unfold into gigabytes.
"""

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

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
    """The data of a file, and the line of every part."""

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
    builder = _Builder(str(path), nullable)
    for event in _events(text, str(path)):
        builder.take(event)
    if builder.root is None:
        raise InputError.at(str(path), "is empty")
    return Source(str(path), builder.root, builder.lines)


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
class _Open:
    """An open mapping or list."""

    loc: Loc
    held: dict[str, Data | None] | list[Data | None]
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Builds data from events; `open` is the path from the top to the next event's place."""

    path: str
    nullable: str | None = None
    root: Data | None = None
    lines: dict[Loc, int] = field(default_factory=dict)
    open: list[_Open] = field(default_factory=list)

    def take(self, event: yaml.Event) -> None:
        """Add one event."""
        line = event.start_mark.line + 1 if event.start_mark else 1
        self._refuse_tricks(event, line)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin({}, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin([], line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.open.pop()

    def _refuse_tricks(self, event: yaml.Event, line: int) -> None:
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise InputError.at(self.path, "contains more than one document", line=line)
        if isinstance(event, yaml.AliasEvent):
            raise self._error(f"aliases such as *{event.anchor} are not allowed", line)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            raise self._error(f"anchors such as &{event.anchor} are not allowed", line)
        if isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)) and event.tag:
            raise self._error("tags such as !!str are not allowed", line)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if self._awaits_key():
            self._begin_entry(event.value, line)
        elif event.implicit[0] and event.value in _NULLS:  # plain, not quoted
            if not self.open:
                return  # a document of nothing but comments
            if self._next_loc()[:-1] != (self.nullable,):
                raise self._error(NO_VALUE, line)
            self._put(None)
        else:
            self._add(event.value, line)

    def _begin(self, held: dict[str, Data | None] | list[Data | None], line: int) -> None:
        if self._awaits_key():
            raise self._error("a key must be a scalar", line)
        if len(self.open) >= MAX_DEPTH:
            raise InputError.at(self.path, f"is nested deeper than {MAX_DEPTH} levels", line=line)
        self.open.append(_Open(self._add(held, line), held))

    def _begin_entry(self, key: str, line: int) -> None:
        at = self.open[-1]
        loc = (*at.loc, key)
        if not key:
            raise self._error("a key is empty", line)
        if loc in self.lines:
            first = self.lines[loc]
            problem = f"is given twice (first on line {first})"
            raise InputError.at(self.path, problem, line=line, field=dotted(loc))
        self.lines[loc] = line
        at.key = key

    def _add(self, value: Data, line: int) -> Loc:
        """Add a value, and return its place."""
        if not self.open:
            self.root = value
            self.lines[()] = line
            return ()
        loc = self._next_loc()
        if isinstance(self.open[-1].held, list):
            self.lines[loc] = line
        self._put(value)
        return loc

    def _put(self, value: Data | None) -> None:
        at = self.open[-1]
        if isinstance(at.held, list):
            at.held.append(value)
        elif at.key is not None:
            at.held[at.key] = value
            at.key = None

    def _awaits_key(self) -> bool:
        return bool(self.open) and isinstance(self.open[-1].held, dict) and self.open[-1].key is None

    def _next_loc(self) -> Loc:
        if not self.open:
            return ()
        at = self.open[-1]
        if isinstance(at.held, list):
            return (*at.loc, len(at.held))
        return at.loc if at.key is None else (*at.loc, at.key)

    def _error(self, problem: str, line: int) -> InputError:
        return InputError.at(self.path, problem, line=line, field=dotted(self._next_loc()))
