"""A story in a dozen lines: changes in a row become one."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from muster.wire.api.story_records import StoryLine

DOZEN = 12
_CHANGES = ("grew", "shrank", "moved", "changed")
_BEGINNING = 4
"""Lines kept of the beginning of a story that is too long; the others are its end."""


def condensed(lines: Sequence[StoryLine], most: int = DOZEN) -> tuple[StoryLine, ...]:
    """Return at most `most` lines: changes in a row as one, then the beginning and the end."""
    if len(lines) <= most:
        return tuple(lines)
    merged: list[StoryLine] = []
    for changes, group in groupby(lines, lambda line: line.what in _CHANGES):
        alike = list(group)
        merged += [_together(alike)] if changes and len(alike) > 1 else alike
    if len(merged) <= most:
        return tuple(merged)
    last = most - _BEGINNING - 1
    between = merged[_BEGINNING:-last]
    times = sum(line.times for line in between)
    gap = StoryLine(between[0].at, "changed", f"{times} more, all of them with -a", times=times)
    return (*merged[:_BEGINNING], gap, *merged[-last:])


def _together(lines: Sequence[StoryLine]) -> StoryLine:
    """Return changes in a row as one line: between which sizes, and what they cost."""
    sizes = [line.workers for line in lines if line.workers is not None]
    cost = sum(line.cost or 0.0 for line in lines)
    parts = [f"{len(lines)} changes"]
    if sizes:
        low, high = min(sizes), max(sizes)
        parts.append(f"{low} to {high} workers" if high > low else f"{high} workers")
    if cost:
        parts.append(f"costing {cost:,.0f} device-seconds")
    last = lines[-1]
    text = f"{', '.join(parts)}; the last: {last.text}"
    return replace(last, at=lines[0].at, what="changed", text=text, cost=cost, times=len(lines))
