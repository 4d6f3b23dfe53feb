"""The Gantt chart: who held which device when."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.sim.report.holders import OTHERS, By, applications, extent, keys_of, largest
from muster.sim.report.optional import needed
from muster.sim.report.style import GRID, PALETTE, PAPER, figure, label, legend, look, time_unit
from muster.sim.result import Result, Stint

NODES = 16
"""Default number of nodes."""
MANY = 4000
"""Bars from which they are rasterised inside the SVG, which would be too slow otherwise."""
LETTERS = 110
"""Small letters that fit side by side across the chart."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the chart, in its units, and its job."""

    left: float
    top: float
    width: float
    height: int
    job: str


@dataclass(frozen=True, slots=True)
class GanttRows:
    """The rows of the chart: the first and the number of each node's, and the end of all."""

    top: Mapping[str, float]
    count: Mapping[str, int]
    end: float


def gantt(result: Result, by: By | None = None, nodes: int = NODES) -> Any:
    """Draw who held which device when, on the first nodes; one row for each device."""
    shown = sorted({s.node for s in result.stints}, key=_by_number)[:nodes]
    stints = [s for s in result.stints if s.node in shown]
    rows = _rows(stints, shown)
    by = by or (By.APPLICATION if applications(result) > 1 else By.JOB)
    begin, end = extent(result)
    unit, name = time_unit(end - begin)
    bars = [bar for s in stints for bar in _bars(s, rows, begin, unit)]
    with look():
        drawing = figure(9.0, min(11.0, 1.4 + 0.11 * rows.end + 0.05 * len(shown)))
        axes = drawing.subplots()
        axes.set_xlim(0, (end - begin) / unit)
        axes.set_xlabel(f"time ({name})")
        _draw_rows(axes, rows)
        if by is By.JOB:
            _draw_jobs(axes, bars)
        else:
            _draw_groups(axes, bars, stints, keys_of(result, by))
        every = len({s.node for s in result.stints})
        rest = f", {len(shown)} of {every} nodes" if every > len(shown) else ""
        axes.set_title(f"Devices by {by}, {label(result.policy)}{rest}")
    return drawing


def _draw_rows(axes: Any, rows: GanttRows) -> None:
    """Draw the rows in grey, for idle devices, and the nodes' names."""
    for node, top in rows.top.items():
        axes.axhspan(top, top + rows.count[node], color=GRID, alpha=0.35, linewidth=0)
    axes.set_ylim(rows.end, -0.4)
    middles = [top + rows.count[node] / 2 for node, top in rows.top.items()]
    axes.set_yticks(middles, [label(node) for node in rows.top])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", visible=False)
    axes.spines["left"].set_visible(False)


def _draw_jobs(axes: Any, bars: Sequence[Bar]) -> None:
    """Draw bars in alternating colours, with the job's name where it fits."""
    order = dict.fromkeys(bar.job for bar in bars)
    colours = {job: PALETTE[i % len(PALETTE)] for i, job in enumerate(order)}
    _draw_bars(axes, bars, [colours[bar.job] for bar in bars])
    across = axes.get_xlim()[1] / LETTERS
    for bar in bars if len(bars) <= MANY else ():
        text = label(bar.job)
        if bar.width > across * (len(text) + 1):
            at = (bar.left + bar.width / 2, bar.top + bar.height / 2)
            axes.text(*at, text, ha="center", va="center", fontsize=5.5, color="white", clip_on=True)


def _draw_groups(
    axes: Any, bars: Sequence[Bar], stints: Sequence[Stint], keys: Mapping[str, str]
) -> None:
    """Draw bars coloured by application, pool or user, and a legend."""
    colours = largest(stints, keys, len(PALETTE))
    group = {job: key if key in colours else OTHERS for job, key in keys.items()}
    _draw_bars(axes, bars, [colours[group.get(bar.job, OTHERS)] for bar in bars])
    seen = {group.get(bar.job, OTHERS) for bar in bars}
    entries = {key: colour for key, colour in colours.items() if key in seen}
    if entries:
        legend(axes, entries, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_bars(axes: Any, bars: Sequence[Bar], colours: Sequence[str]) -> None:
    corners = [
        [(x, y), (x + b.width, y), (x + b.width, y + b.height), (x, y + b.height)]
        for b, x, y in ((b, b.left, b.top) for b in bars)
    ]
    many = len(bars) > MANY
    collection = needed("matplotlib.collections", "a plot").PolyCollection(
        corners, facecolors=colours, edgecolors=PAPER, linewidths=0.0 if many else 0.35
    )
    collection.set_rasterized(many)
    axes.add_collection(collection, autolim=False)


def _bars(stint: Stint, rows: GanttRows, begin: float, unit: float) -> Iterable[Bar]:
    """Yield a bar for each run of adjacent devices."""
    left, width = (stint.begin - begin) / unit, (stint.end - stint.begin) / unit
    for run in re.finditer("1+", f"{stint.bits:b}"[::-1]):
        top = rows.top[stint.node] + run.start()
        yield Bar(left, top, width, len(run.group()), stint.job)


def _rows(stints: Sequence[Stint], nodes: Sequence[str]) -> GanttRows:
    """Return as many rows for each node as devices were ever held, with gaps between nodes."""
    count = dict.fromkeys(nodes, 1)
    for s in stints:
        count[s.node] = max(count[s.node], s.bits.bit_length())
    top: dict[str, float] = {}
    at = 0.0
    for node, devices in count.items():
        top[node] = at
        at += devices + 0.5
    return GanttRows(top, count, max(at, 1.0))


def _by_number(name: str) -> list[tuple[int, int, str]]:
    """Return the key of the natural order: node2 before node10."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
