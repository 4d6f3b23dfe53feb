"""The page of the matrix."""

from collections.abc import Sequence
from pathlib import Path

from tests.matrix.cells import EVENTS, Cell
from tests.matrix.feature import EXACT, NOISE
from tests.matrix.features import features

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "matrix.md"
OPENING = """# Training features

What people write, and how it comes through a change of workers. `make matrix` trains each feature in
real processes, compares the parameters with those of one process of plain torch in float64, which draws
the order of the samples by itself, writes this page, and fails if a cell differs.

What is random by nature is judged by its loss: that of plain torch over 20 seeds has a mean and a
standard deviation, and four of those are allowed. bf16 may differ from plain bf16 by twice as much as
that differs from float32, since both round.

| | |
|---|---|
| resize | from one worker to three and to two, while it trains |
| kill | of three workers one is killed with SIGKILL, then the first of the others |
| exact | within 1e-10 of plain torch, for the order of additions; in brackets the largest difference |
| equal within noise | random or rounded by nature: the note says why, the bracket how far off |
| refused | one clear error before or at the step, with nothing applied |

| feature | resize | kill | |
|---|---|---|---|
"""


def written(cells: Sequence[Cell], before: str = "") -> str:
    """Return the page for these cells; rows of other features are those of the page before."""
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in before.splitlines()}
    by_title: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_title.setdefault(cell.feature, {})[cell.event] = cell
    for title, found in by_title.items():
        said = " | ".join(_said(found[event]) for event in EVENTS)
        rows[title] = f"| {title} | {said} | {_note(title)} |"
    return OPENING + "\n".join(rows[title] for title in features() if title in rows) + "\n"


def _said(cell: Cell) -> str:
    return f"{cell.verdict} ({cell.detail})" if cell.verdict in (EXACT, NOISE) else cell.verdict


def _note(title: str) -> str:
    feature = features()[title]
    words = f"`… {feature.words} …`" if feature.words else ""
    return "; ".join(part for part in (feature.note, words) if part)
