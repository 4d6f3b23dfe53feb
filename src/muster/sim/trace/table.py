"""Generic traces: CSV and JSONL, read in constant memory: see docs/reference/traces.md."""

from collections.abc import Iterator
from pathlib import Path

from muster.files.errors import InputError
from muster.sim.trace.columns import CellError, arrival_of, origin_of, submitted_of
from muster.sim.trace.left_out import LeftOut, left_out_or_raised
from muster.sim.trace.lines import form_of, rows_in_order, rows_sorted
from muster.sim.truth import Arrival


def read_table(path: Path, *, sort: bool = False, left_out: LeftOut | None = None) -> Iterator[Arrival]:
    """Yield the jobs of a trace in order of submission.

    InputError for the first bad row; with `left_out` bad rows are skipped and counted. Times out of
    order are refused unless `sort` is given, which keeps 24 bytes of each row.
    """
    form = form_of(path)
    rows = rows_sorted(path, form, left_out) if sort else rows_in_order(path, form)
    origin: float | None = None
    for number, (line, row) in enumerate(rows, start=1):
        try:
            cells = form.cells(row)
            if origin is None:
                origin = origin_of(submitted_of(cells))
            arrival = arrival_of(cells, line, origin, number)
        except CellError as error:
            wrong = InputError.at(str(path), error.problem, line=line, field=error.column)
            left_out_or_raised(wrong, left_out)
        else:
            yield arrival
