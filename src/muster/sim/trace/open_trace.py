"""Open a trace: a file or a generator.

A file's header says what it is: Philly's, a T4 workload's, or the columns of docs/reference/traces.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from muster.files.errors import InputError, did_you_mean, shown
from muster.sim.trace import philly
from muster.sim.trace.generate import GENERATORS
from muster.sim.trace.left_out import LeftOut
from muster.sim.trace.spec import parse_spec
from muster.sim.trace.table import read_table
from muster.sim.truth import Arrival

T4_HEADER = ("name", "time", "application", "num_replicas", "batch_size")
"""Of the workloads of Pollux' evaluation; speeds come from its tables."""


class TraceKind(StrEnum):
    GENERATOR = "generator"
    PHILLY = "philly"
    T4 = "t4"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How to open a trace; options that do not apply to its kind are ignored."""

    seed: int = 0
    sort: bool = False
    """Sort a table whose times are out of order."""
    left_out: LeftOut | None = None
    """Counts bad rows, which are skipped; None: the first is an error."""
    one_pool: bool = False
    """Philly: one pool instead of one for each virtual cluster."""
    # T4 workloads: the folder of the measured tables, and what the policy may choose
    speeds: Path | None = None
    elastic: bool = True
    most: int | None = None
    """Most workers of an elastic job; None: as many as its batch can use."""
    free_batch: bool = False


def kind_of(trace: str) -> TraceKind:
    """Return the kind of a trace, by its name or its first line."""
    path = Path(trace)
    if _generator(trace) in GENERATORS and not path.exists():
        return TraceKind.GENERATOR
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            header = tuple(file.readline(1000).strip().split(","))
    except OSError:
        return TraceKind.TABLE  # reading it reports the problem
    if header == philly.HEADER:
        return TraceKind.PHILLY
    return TraceKind.T4 if header == T4_HEADER else TraceKind.TABLE


def open_trace(text: str, options: TraceOptions | None = None) -> Iterator[Arrival]:
    """Return the arrivals of a file (.csv, .jsonl) or generator (`philly-like:jobs=100`), in order."""
    options, path, kind = options or TraceOptions(), Path(text), kind_of(text)
    if kind is TraceKind.GENERATOR:
        spec = parse_spec(text)
        return spec.generator.make(spec.parameters, options.seed)
    if kind is TraceKind.PHILLY:
        return philly.read_philly(path, one_pool=options.one_pool, left_out=options.left_out)
    if kind is TraceKind.T4:
        if options.speeds is None:
            problem = "is a T4 workload; give the folder of its measured speeds with --speeds"
            raise InputError.at(str(path), problem)
        return _t4(path, options.speeds, options)
    if not path.is_file() and not _looks_like_a_file(text):
        raise InputError(
            f"{shown(text)} is neither a file nor a generator"
            f"{did_you_mean(_generator(text), GENERATORS)}; generators: {', '.join(GENERATORS)}"
        )
    return read_table(path, sort=options.sort, left_out=options.left_out)


def _generator(text: str) -> str:
    return text.partition(":")[0].strip()


def _t4(path: Path, speeds: Path, options: TraceOptions) -> Iterator[Arrival]:
    # Imported here: few traces need it.
    from muster.sim.worlds.t4_files import read_tables, read_workload
    from muster.sim.worlds.t4_tables import TableError

    try:
        yield from read_workload(
            path,
            read_tables(speeds),
            most=options.most,
            elastic=options.elastic,
            free_batch=options.free_batch,
        )
    except (TableError, OSError) as error:
        raise InputError(str(error)) from None


def _looks_like_a_file(text: str) -> bool:
    return "/" in text or Path(text).suffix.lower() in (".csv", ".jsonl", ".ndjson", ".json")
