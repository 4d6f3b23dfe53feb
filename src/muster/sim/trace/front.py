"""The front door: whatever names a trace, its arrivals."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from muster.files.errors import InputError, did_you_mean, shown
from muster.sim.trace import philly
from muster.sim.trace.generate import GENERATORS
from muster.sim.trace.left_out import LeftOut
from muster.sim.trace.lines import is_json, raw_lines
from muster.sim.trace.spec import parse_spec
from muster.sim.trace.table import read_table
from muster.sim.truth import Arrival

T4_HEADER = ("name", "time", "application", "num_replicas", "batch_size")
"""Of the workloads of Pollux' evaluation; speeds come from its tables."""


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """How to read or make a trace; what a kind of trace has no use for is not looked at."""

    seed: int = 0
    """Of a generator."""
    sort: bool = False
    """Read a table whose times are out of order."""
    left_out: LeftOut | None = None
    """Where bad rows are counted; None: the first is an error."""
    one_pool: bool = False
    """Philly: one pool instead of one for each virtual cluster."""
    speeds: Path | None = None
    """T4 workloads: the folder of the measured tables."""
    elastic: bool = True
    """T4 workloads: the policy may choose how many workers."""
    most: int | None = None
    """T4 workloads: workers of an elastic job at the most; None: what its batch has use for."""
    free_batch: bool = False
    """T4 workloads: the policy may choose the batch."""


def open_trace(text: str, options: TraceOptions | None = None) -> Iterator[Arrival]:
    """The arrivals of a file (.csv, .jsonl) or of a generator (`philly-like:jobs=100`), in order.

    The header tells: Philly's, a T4 workload's, or the columns of docs/reference/traces.md.
    """
    options = options or TraceOptions()
    name = text.partition(":")[0].strip()
    path = Path(text)
    if name in GENERATORS and not path.exists():
        spec = parse_spec(text)
        return spec.generator.make(spec.parameters, options.seed)
    if not path.is_file() and not _looks_like_a_file(text):
        raise InputError(
            f"{shown(text)} is neither a file nor a generator{did_you_mean(name, GENERATORS)}; "
            f"generators: {', '.join(GENERATORS)}"
        )
    return _open_file(path, options)


def _open_file(path: Path, options: TraceOptions) -> Iterator[Arrival]:
    if not is_json(path) and path.is_file():
        header = tuple(next(raw_lines(path), (1, b""))[1].decode("utf-8", "replace").strip().split(","))
        if header == philly.HEADER:
            return philly.read_philly(path, one_pool=options.one_pool, left_out=options.left_out)
        if header == T4_HEADER:
            return _open_t4(path, options)
    return read_table(path, sort=options.sort, left_out=options.left_out)


def _open_t4(path: Path, options: TraceOptions) -> Iterator[Arrival]:
    if options.speeds is None:
        problem = "is a T4 workload; say with --speeds where the folder of its measured speeds is"
        raise InputError.at(str(path), problem)
    return _t4(path, options.speeds, options)


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
