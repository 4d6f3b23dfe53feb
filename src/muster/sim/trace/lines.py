"""Tables of CSV or JSON lines, read line by line in the file's order or sorted."""

import csv
import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from muster.files.errors import InputError, shown
from muster.sim.trace.columns import COLUMNS, CellError, columns_fault, submitted_of
from muster.sim.trace.left_out import LeftOut, left_out_or_raised

Raw = tuple[int, bytes]
"""A line's number, from 1, and its bytes."""

_MARK = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""


@dataclass(frozen=True, slots=True)
class CsvLines:
    """Values in the order of the header."""

    columns: tuple[str, ...]
    first: int = 2
    """The number of the first row's line."""

    def cells(self, line: bytes) -> Mapping[str, str]:
        """Return one value for each column; CellError if the line is not a row."""
        values = _split(_text(line))
        if len(values) != len(self.columns):
            raise CellError("", f"has {len(values)} values, the header has {len(self.columns)}")
        return dict(zip(self.columns, values, strict=True))


@dataclass(frozen=True, slots=True)
class JsonLines:
    """One object a line."""

    first: int = 1

    def cells(self, line: bytes) -> Mapping[str, str]:
        """Return the values of our columns as text; null counts as absent."""
        try:
            row = json.loads(_text(line))
        except (ValueError, RecursionError) as error:
            raise CellError("", f"is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise CellError("", "is not a JSON object")
        problem = _keys_fault(tuple(row))
        if problem is not None:
            raise CellError("", problem)
        return {key: _written(key, row[key]) for key in COLUMNS if row.get(key) is not None}


LineFormat = CsvLines | JsonLines


def form_of(path: Path) -> LineFormat:
    """Return the format of a file by its name and first line; its columns are checked."""
    if not path.is_file():
        raise InputError.at(str(path), "is a folder" if path.is_dir() else "no such file")
    top = next(raw_lines(path), (1, b""))[1].removeprefix(_MARK)
    if path.suffix.lower() in (".jsonl", ".ndjson", ".json"):
        return JsonLines()
    try:
        header = tuple(name.lower() for name in _split(_text(top)) if name)
    except CellError as error:
        raise InputError.at(str(path), error.problem, line=1) from None
    problem = columns_fault(header)
    if problem is not None:
        raise InputError.at(str(path), problem, line=1)
    return CsvLines(header)


def raw_lines(path: Path) -> Iterator[Raw]:
    """Yield every line that is not blank."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InputError.at(str(path), f"cannot be read: {error.strerror}") from None


def rows_in_order(path: Path, form: LineFormat) -> Iterator[Raw]:
    """Yield the lines of a file in order of time; InputError before the first if they are not.

    The file is read twice: an error after an hour of simulation would be late.
    """
    _refuse_backwards(path, form)
    return (raw for raw in raw_lines(path) if raw[0] >= form.first)


def rows_sorted(path: Path, form: LineFormat, left_out: LeftOut | None) -> Iterator[Raw]:
    """Yield the lines of a file sorted by submission, keeping 24 bytes of each."""
    times, places, numbers = array("d"), array("q"), array("q")
    place = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if number >= form.first and line.strip():
                try:
                    times.append(submitted_of(form.cells(line)))
                except CellError as error:
                    left_out_or_raised(
                        InputError.at(str(path), error.problem, line=number, field=error.column),
                        left_out,
                    )
                else:
                    places.append(place)
                    numbers.append(number)
            place += len(line)
        order = np.argsort(np.frombuffer(times), kind="stable") if times else ()
        for i in order:
            file.seek(places[i])
            yield numbers[i], file.readline()


def _refuse_backwards(path: Path, form: LineFormat) -> None:
    latest, first, count = 0.0, 0, 0
    for number, line in raw_lines(path):
        if number < form.first:
            continue
        try:
            submitted = submitted_of(form.cells(line))
        except CellError:
            continue  # Reported, or counted, when its turn comes.
        if submitted < latest:
            count += 1
            first = first or number
        latest = max(latest, submitted)
    if count:
        rows = "row is" if count == 1 else "rows are"
        problem = f"submitted before the row above it; {count} {rows} out of order: read it with --sort"
        raise InputError.at(str(path), problem, line=first, field="submitted")


_keys_fault = lru_cache(maxsize=1024)(columns_fault)


def _text(line: bytes) -> str:
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise CellError("", "is not text in UTF-8") from None


def _split(line: str) -> list[str]:
    """Split a line into values; without quotes, as nearly always, by commas."""
    if '"' not in line:
        return [value.strip() for value in line.split(",")]
    try:
        return [value.strip() for value in next(csv.reader([line], skipinitialspace=True), [])]
    except csv.Error as error:
        raise CellError("", f"is not CSV: {error}") from None


def _written(column: str, value: object) -> str:
    """Return a JSON value as in CSV."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "|".join(value)
    raise CellError(column, f"{shown(str(value))} is neither a word nor a number")
