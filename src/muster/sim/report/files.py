"""Results in files: a folder with jobs, samples and stints as CSV or Parquet, and result.json.

Read back, a result is the same to the digit. `result.json` is written last, so a folder that has one is
complete. In CSV an empty cell is None.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from muster.files.errors import InputError
from muster.sim.report.bounds import bounds
from muster.sim.report.metrics import summary
from muster.sim.report.optional import needed
from muster.sim.result import ClusterSample, Fate, JobResult, Result, Stint

INDEX = "result.json"
LAYOUT = 1
"""Incremented when the meaning of the files changes."""

Line = TypeVar("Line", JobResult, ClusterSample, Stint)

_PARSERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    str | None: lambda cell: cell or None,
    int: int,
    float: float,
    float | None: lambda cell: float(cell) if cell else None,
    Fate: Fate,
}


class TableFormat(StrEnum):
    """Format of tables; Parquet is smaller and faster and needs pyarrow."""

    CSV = "csv"
    PARQUET = "parquet"


def write_result(result: Result, folder: Path, form: TableFormat = TableFormat.CSV) -> None:
    """Write a result into a folder, replacing an older one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).unlink(missing_ok=True)
    write_lines(folder / f"jobs.{form}", JobResult, result.records)
    write_lines(folder / f"samples.{form}", ClusterSample, result.samples)
    write_lines(folder / f"stints.{form}", Stint, result.stints)
    text = json.dumps(_index(result, form), indent=2, ensure_ascii=False)
    _replace(folder / INDEX, lambda part: part.write_text(text + "\n", encoding="utf-8"))


def read_result(folder: Path) -> Result:
    """Read the result of a folder; InputError is one line."""
    index = read_index(folder)
    try:
        form = TableFormat(index["form"])
        head: dict[str, Any] = {name: index[name] for name in _HEAD}
    except (KeyError, ValueError) as error:
        raise InputError.at(str(folder / INDEX), f"not an index of results: {error}") from None
    return Result(
        **{**head, "notes": tuple(head["notes"])},
        records=tuple(read_lines(folder / f"jobs.{form}", JobResult)),
        samples=tuple(read_lines(folder / f"samples.{form}", ClusterSample)),
        stints=tuple(read_lines(folder / f"stints.{form}", Stint)),
    )


def read_index(folder: Path) -> dict[str, Any]:
    """Read result.json: configuration, seed, hash, summary, bounds."""
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError.at(str(path), error.strerror or str(error)) from None
    except ValueError as error:
        raise InputError.at(str(path), f"not JSON: {error}") from None
    if not isinstance(index, dict) or index.get("layout") != LAYOUT:
        raise InputError.at(str(path), f"not a result of this version (layout {LAYOUT})")
    return index


def write_lines(path: Path, kind: type[Line], lines: Iterable[Line]) -> None:
    """Write records, samples or stints in the format of the file's suffix."""
    writer = _write_parquet if _form(path) is TableFormat.PARQUET else _write_csv
    _replace(path, lambda part: writer(part, kind, lines))


def read_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """Read records, samples or stints in the format of the file's suffix."""
    try:
        yield from (_read_parquet if _form(path) is TableFormat.PARQUET else _read_csv)(path, kind)
    except OSError as error:
        raise InputError.at(str(path), error.strerror or str(error)) from None


_HEAD = ("configuration", "seed", "policy", "hash", "cycles", "events", "cpu", "notes")


def _index(result: Result, form: TableFormat) -> dict[str, Any]:
    lowest = bounds(result)
    return {
        "layout": LAYOUT,
        "form": str(form),
        **{name: getattr(result, name) for name in _HEAD},
        "configuration": dict(result.configuration),
        "summary": asdict(summary(result)),
        "bounds": None if lowest is None else {**asdict(lowest), "best": lowest.best},
    }


def _form(path: Path) -> TableFormat:
    try:
        return TableFormat(path.suffix.removeprefix("."))
    except ValueError:
        raise InputError.at(str(path), "must end in .csv or .parquet") from None


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a temporary file first, so that no reader or interruption leaves half a file."""
    part = path.with_name(f"{path.name}.part")
    write(part)
    part.replace(path)


def _names(kind: type[Line]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def _write_csv(path: Path, kind: type[Line], lines: Iterable[Line]) -> None:
    names = _names(kind)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        # Python writes floats as the shortest text that reads back the same.
        writer.writerows(map(attrgetter(*names), lines))


def _read_csv(path: Path, kind: type[Line]) -> Iterator[Line]:
    hints = get_type_hints(kind)
    names = _names(kind)
    parsers = [_PARSERS[hints[name]] for name in names]
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file)
        _check(path, next(reader, []), names)
        for row in reader:
            if len(row) != len(names):
                problem = f"{len(row)} columns, not {len(names)}"
                raise InputError.at(str(path), problem, line=reader.line_num)
            try:
                yield kind(*(parse(cell) for parse, cell in zip(parsers, row, strict=True)))
            except ValueError as error:
                raise InputError.at(str(path), str(error), line=reader.line_num) from None


def _check(path: Path, heading: Sequence[str], names: Sequence[str]) -> None:
    if tuple(heading) == tuple(names):
        return
    missing = [name for name in names if name not in heading]
    problem = (
        f"no column {', '.join(missing)}" if missing else f"the columns must be {', '.join(names)}"
    )
    raise InputError.at(str(path), problem, line=1)


def _write_parquet(path: Path, kind: type[Line], lines: Iterable[Line]) -> None:
    arrow, parquet = needed("pyarrow", "Parquet"), needed("pyarrow.parquet", "Parquet")
    text, number = arrow.string(), arrow.float64()
    types: dict[Any, Any] = {str: text, str | None: text, Fate: text, int: arrow.int64()}
    types |= {float: number, float | None: number}
    hints = get_type_hints(kind)
    rows = list(lines)
    columns = {
        name: arrow.array([getattr(row, name) for row in rows], type=types[hints[name]])
        for name in _names(kind)
    }
    parquet.write_table(arrow.table(columns), path, compression="zstd")


def _read_parquet(path: Path, kind: type[Line]) -> Iterator[Line]:
    arrow, parquet = needed("pyarrow", "Parquet"), needed("pyarrow.parquet", "Parquet")
    names = _names(kind)
    try:
        table = parquet.read_table(path)
    except arrow.ArrowInvalid as error:
        raise InputError.at(str(path), str(error)) from None
    _check(path, table.column_names, names)
    columns = [table.column(name).to_pylist() for name in names]
    if kind is JobResult:
        fate = names.index("fate")
        columns[fate] = [Fate(cell) for cell in columns[fate]]
    yield from map(kind, *columns)
