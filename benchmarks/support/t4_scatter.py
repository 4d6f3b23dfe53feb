"""A picture of predicted against measured step times, one panel for each model, as SVG."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from pathlib import Path

SIDE, GAP, TOP, COLUMNS = 200, 46, 30, 3
EVERY = 2
"""Every n-th row is drawn: enough to see the cloud, in a small file."""

Points = Sequence[tuple[float, float]]
"""(measured, predicted) seconds."""


def draw(path: Path, panels: Mapping[str, tuple[Points, Points]]) -> None:
    """Write a panel for each name: the predicted points, and over them those that were sampled."""
    rows = ceil(len(panels) / COLUMNS)
    width, height = COLUMNS * (SIDE + GAP) + GAP, rows * (SIDE + GAP + TOP) + GAP
    style = (
        "text{font:12px sans-serif;fill:#333}.t{font-weight:bold}.f{fill:none;stroke:#999}"
        ".d{fill:none;stroke:#2a6fb0;stroke-width:3;stroke-linecap:round;opacity:.35}"
        ".s{fill:none;stroke:#d2491f;stroke-width:6;stroke-linecap:round}"
        ".m{stroke:#666;stroke-dasharray:3 3}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="Predicted against measured step time of six models">',
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>',
    ]
    for place, (name, (points, sampled)) in enumerate(panels.items()):
        row, column = divmod(place, COLUMNS)
        at = (GAP + column * (SIDE + GAP), TOP + row * (SIDE + GAP + TOP))
        parts.append(_panel(name, points, sampled, at))
    path.write_text("\n".join([*parts, "</svg>\n"]))


def _panel(name: str, points: Points, sampled: Points, at: tuple[int, int]) -> str:
    """One model: logarithmic on both axes; on the dashed line the prediction is right."""
    logs = [log10(value) for pair in (*points, *sampled) for value in pair]
    low, high = floor(min(logs) * 10) / 10, ceil(max(logs) * 10) / 10

    def dots(pairs: Points) -> str:
        scale = SIDE / (high - low)
        return "".join(
            f"M{round((log10(x) - low) * scale)} {SIDE - round((log10(y) - low) * scale)}h0"
            for x, y in pairs
        )

    return (
        f'<g transform="translate({at[0]} {at[1]})"><text class="t" y="-8">{name}</text>'
        f'<rect class="f" width="{SIDE}" height="{SIDE}"/><path class="m" d="M0 {SIDE}L{SIDE} 0"/>'
        f'<path class="d" d="{dots(points[::EVERY])}"/><path class="s" d="{dots(sampled)}"/>'
        f'<text y="{SIDE + 14}">{10**low:.2g} s</text>'
        f'<text x="{SIDE}" y="{SIDE + 14}" text-anchor="end">measured {10**high:.2g} s</text>'
        f'<text transform="translate(-6 {SIDE / 2}) rotate(-90)" text-anchor="middle">predicted</text>'
        "</g>"
    )
