"""The style of plots: colours, fonts, time axes, and output."""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

from muster.sim.report.optional import needed

PALETTE = (
    "#2f6fde",
    "#e0782f",
    "#2a9d6f",
    "#b04fc0",
    "#d64550",
    "#149eb0",
    "#c9a227",
    "#8a6d4f",
    "#e377a8",
    "#5b7d2a",
)
"""Distinct to most eyes, on white and on black."""
OWN = "muster"
"""The policy that always has the first colour."""
INK, MUTED, GRID, PAPER = "#24292f", "#6e7782", "#d8dee5", "#fffffe"
"""Text and axes, asides, grid, background; the page replaces them in dark mode."""
REST = "#a9b1ba"
LONGEST = 28
"""Characters of a name in a legend."""

_LOOK: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "text.color": INK,
    # Names come from input, and a dollar in them is a dollar.
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": False,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "muster",
}
_UNITS = ((180.0, 1.0, "s"), (3 * 3600.0, 60.0, "min"), (4 * 86400.0, 3600.0, "h"))
"""The longest span in s, a unit in s, its name; days beyond."""
_UNSAID: dict[str, None] = {"Date": None, "Creator": None, "Format": None, "Type": None}
"""No metadata of when or by what a picture was drawn: equal results give equal files."""


def look() -> AbstractContextManager[None]:
    """Return the style of all plots, for a `with`."""
    context: AbstractContextManager[None] = needed("matplotlib", "a plot").rc_context(_LOOK)
    return context


def figure(width: float, height: float) -> Any:
    """Return an empty figure, sizes in inches, without a window or global state."""
    module = needed("matplotlib.figure", "a plot")
    empty = module.Figure(figsize=(width, height), layout="constrained")
    empty.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    return empty


def policy_colours(policies: Sequence[str]) -> dict[str, str]:
    """Return a colour for each policy: the first for Muster's own, then in order."""
    order = sorted(dict.fromkeys(policies), key=lambda name: name != OWN)
    colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(order)}
    return {name: colours[name] for name in policies}


def label(name: str) -> str:
    """Return a name of the input as a plot can show it."""
    clipped = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
    text = "".join(c if c.isprintable() and ord(c) in _glyphs() else "?" for c in clipped)
    # A legend ignores names with a leading underscore.
    return f" {text}" if text.startswith("_") else text


def time_unit(span: float) -> tuple[float, str]:
    """Return the best unit for a span in s: its length in s and its name."""
    return next(((size, name) for upto, size, name in _UNITS if span <= upto), (86400.0, "days"))


def save_png(drawing: Any, path: Path) -> None:
    """Write a figure as PNG, 160 dpi, on white."""
    with look():
        drawing.savefig(path, format="png", dpi=160, facecolor="white", metadata={"Software": None})


def svg(drawing: Any, mark: str) -> str:
    """Return a figure as SVG to embed in a page; `mark` makes its ids unique."""
    file = io.StringIO()
    with look():
        drawing.savefig(file, format="svg", transparent=True, metadata=_UNSAID)
    text = re.sub(r"<!--.*?-->", "", file.getvalue(), flags=re.DOTALL)
    text = text[text.index("<svg") :]
    text = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", text)
    text = re.sub(r'(\sid="|xlink:href="#|url\(#)', rf"\g<1>{mark}-", text)
    for colour, name in {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"}.items():
        text = text.replace(colour, f"var(--{name})")
    return re.sub(r'(<svg[^>]*?) width="[^"]*"| height="[^"]*"(?=[^>]*viewBox)', r"\1", text, count=2)


def legend(axes: Any, entries: Mapping[str, str], **where: Any) -> None:
    """Draw a legend of names with their colours."""
    patch = needed("matplotlib.patches", "a plot").Patch
    handles = [patch(color=colour) for colour in entries.values()]
    axes.legend(handles, [label(name) for name in entries], handlelength=1.0, handleheight=1.0, **where)


def groups(names: Iterable[str], other: str) -> dict[str, str]:
    """Return a colour for each of the first names, and one for the others."""
    unique = list(dict.fromkeys(names))
    return {**dict(zip(unique, PALETTE, strict=False)), other: REST}


@cache
def _glyphs() -> frozenset[int]:
    """Return the font's characters; a missing one would be a warning and an empty box."""
    manager = needed("matplotlib.font_manager", "a plot")
    return frozenset(manager.get_font(manager.findfont("DejaVu Sans")).get_charmap())
