"""A sweep as pictures: the metric over each parameter, in the terminal or as an image."""

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from muster.cli.parse import writing
from muster.files.errors import InputError
from muster.wire.api.sweep_records import MemberRecord

WIDTH, HEIGHT = 60, 12
"""Characters of a plot in the terminal."""
_WIDE = 30.0
"""A parameter whose largest value is this many times its smallest gets a logarithmic axis."""

Points = list[tuple[float, float]]


def drawn(members: Sequence[MemberRecord], metric: str) -> str:
    """Draw the metric over each parameter, as text."""
    plots = [_plot(name, metric, _points(members, name, metric)) for name in _names(members)]
    return "\n\n".join(plots) or f"no member has reported {metric} yet"


def write_image(path: Path, members: Sequence[MemberRecord], metric: str, title: str) -> None:
    """Write the same as an image, by the name's ending: .png, .svg or .pdf."""
    if find_spec("matplotlib") is None:
        raise InputError.at("--plot", "an image needs matplotlib: pip install 'musterd[report]'")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = _names(members)
    if not names:
        raise InputError.at("--plot", f"no member has reported {metric} yet")
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.2), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        points = _points(members, name, metric)
        axis.scatter([x for x, _ in points], [y for _, y in points], s=14)
        axis.set_xlabel(name)
        axis.set_ylabel(metric)
        if _is_wide([x for x, _ in points]):
            axis.set_xscale("log")
    figure.suptitle(title)
    figure.tight_layout()
    with writing(path):
        figure.savefig(path)
    plt.close(figure)


def _names(members: Sequence[MemberRecord]) -> list[str]:
    known = [each for each in members if each.metrics]
    return list(dict.fromkeys(name for each in known for name in each.params))


def _points(members: Sequence[MemberRecord], name: str, metric: str) -> Points:
    """Return value and metric of each member; words are numbered in order."""
    known = [each for each in members if metric in each.metrics and name in each.params]
    texts = list(dict.fromkeys(each.params[name] for each in known))
    numbers = [_number(text) for text in texts]
    plain = all(number is not None for number in numbers)
    at = {text: numbers[i] if plain else float(i) for i, text in enumerate(texts)}
    return [(at[each.params[name]] or 0.0, each.metrics[metric]) for each in known]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_wide(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) > _WIDE * min(values)


def _plot(name: str, metric: str, points: Points) -> str:
    """Draw points as text; a cell with several has their number."""
    if not points:
        return f"{metric} over {name}: nothing reported yet"
    log = _is_wide([x for x, _ in points])
    across = [math.log(x) if log else x for x, _ in points]
    up = [y for _, y in points]
    cells: dict[tuple[int, int], int] = {}
    for x, y in zip(across, up, strict=True):
        cell = (_cell(x, across, WIDTH), _cell(y, up, HEIGHT))
        cells[cell] = cells.get(cell, 0) + 1
    rows = [
        "".join(_mark(cells.get((column, row), 0)) for column in range(WIDTH)).rstrip()
        for row in reversed(range(HEIGHT))
    ]
    ends = [f"{max(up):.4g}", f"{min(up):.4g}"]
    gap = max(map(len, ends))
    labels = [ends[0], *[""] * (HEIGHT - 2), ends[1]]
    body = [f"{label:>{gap}} |{row}" for label, row in zip(labels, rows, strict=True)]
    low, high = (f"{end(x for x, _ in points):g}" for end in (min, max))
    foot = f"{'':>{gap}} +{'-' * WIDTH}\n{'':>{gap}}  {low}{high:>{WIDTH - len(low)}}"
    return "\n".join([f"{metric} over {name}{' (log)' if log else ''}", *body, foot])


def _cell(value: float, values: Sequence[float], cells: int) -> int:
    low, high = min(values), max(values)
    return 0 if high == low else round((value - low) / (high - low) * (cells - 1))


def _mark(count: int) -> str:
    return " " if not count else "o" if count == 1 else str(min(count, 9))
