"""The page about traces names every column, generator and parameter, with its default."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from muster.sim.trace.columns import COLUMNS, REQUIRED
from muster.sim.trace.generate import GENERATORS
from muster.sim.trace.open_trace import T4_HEADER
from muster.sim.trace.philly import HEADER

PAGE = (Path(__file__).parents[4] / "docs/reference/traces.md").read_text(encoding="utf-8")


def test_the_columns_are_those_of_the_page() -> None:
    section = PAGE.partition("## Columns")[2].partition("## What can be wrong")[0]
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", section, re.MULTILINE)
    assert [name for name, _ in rows] == list(COLUMNS)
    assert [name for name, empty in rows if empty == "required"] == list(REQUIRED)


def test_files_are_told_apart_by_the_headers_of_the_page() -> None:
    assert f"`{','.join(HEADER)}`" in PAGE
    assert f"`{','.join(T4_HEADER)}`" in PAGE


@pytest.mark.parametrize("name", GENERATORS)
def test_every_generator_and_parameter_is_on_the_page(name: str) -> None:
    assert f"| `{name}` |" in PAGE
    for field in fields(GENERATORS[name].parameters):
        assert re.search(rf"^\| [^|]*`{field.name}`", PAGE, re.MULTILINE), field.name
