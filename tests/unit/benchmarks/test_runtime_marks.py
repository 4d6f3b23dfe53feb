"""What the runtime's benchmarks read out of the marks of a training."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as the benchmarks themselves import it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in [each for each in sys.modules if each.split(".")[0] == "support"]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module("support.runtime_marks")


def test_a_redone_step_counts_when_it_was_done_and_half_a_line_not_at_all(
    marks: Any, tmp_path: Path
) -> None:
    # Step 2 came to nothing at 2.0 among three and was done at 2.5 by two; the last line was cut off.
    path = tmp_path / "worker-0.marks"
    path.write_text("1 1.0 3 8 0.1\n2 2.0 3 8 0.2\n2 2.5 2 12 0.3\n3 3.", encoding="ascii")
    found = marks.read_marks(path)
    assert [(mark.step, mark.at, mark.size, mark.samples) for mark in found] == [
        (1, 1.0, 3, 8),
        (2, 2.5, 2, 12),
    ]


def test_an_excess_is_over_the_median_step_of_as_many_workers(marks: Any) -> None:
    ended = [1.0, 2.0, 3.0, 6.0, 8.0, 10.0, 12.0]
    sizes = [2, 2, 2, 1, 1, 1, 1]
    seen = [marks.Mark(i, at, size, 4) for i, (at, size) in enumerate(zip(ended, sizes, strict=True))]
    gaps = marks.gaps_of(seen)
    # Gaps: 1 and 1 s by two; 3, 2, 2 and 2 s by one: medians 1 s and 2 s.
    typical = marks.typical_steps(gaps)
    assert typical == {2: 1.0, 1: 2.0}
    assert marks.excesses(marks.between(gaps, 3.0, 8.0), typical) == [1.0, 0.0]
