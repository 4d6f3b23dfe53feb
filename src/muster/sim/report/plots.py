"""Plots of results: completion times, means against the bound, load and shares over time.

Each function returns a matplotlib figure; `style.save_png` and `style.svg` write it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from muster.sim.report.compare import Comparison, Digest
from muster.sim.report.curve import Floats, StepFunction
from muster.sim.report.holders import By, extent, held_by, keys_of, largest
from muster.sim.report.metrics import sampled, span
from muster.sim.report.optional import needed
from muster.sim.report.style import INK, MUTED, figure, label, legend, look, policy_colours, time_unit
from muster.sim.result import Result

POINTS = 300
"""Points of a curve: more than the eye distinguishes."""


def completion_cdf(digests: Sequence[Digest]) -> Any:
    """Draw the share of jobs completed within a time, for each policy over all seeds."""
    with look():
        drawing = figure(7.2, 4.2)
        axes = drawing.subplots()
        for policy, colour in policy_colours([d.policy for d in digests]).items():
            times = np.concatenate([d.times for d in digests if d.policy == policy])
            times = np.sort(times[~np.isnan(times)])
            share = np.linspace(0, 1, min(POINTS, max(2, len(times))))
            if len(times):
                # A logarithmic axis has no place for 0.
                points = np.maximum(np.quantile(times, share), 1.0)
                axes.plot(points, share, color=colour, label=label(policy))
        axes.set_xscale("log")
        _time_ticks(axes)
        axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(_percent())
        axes.set(xlabel="completion time", ylabel="share of jobs")
        axes.set_title("Completion times")
        if axes.lines:
            axes.legend(loc="lower right")
    return drawing


def mean_bars(comparison: Comparison) -> Any:
    """Draw the mean completion time of each policy with its interval, and the lower bound."""
    rows = [row for row in comparison.rows if "mean" in row.intervals][::-1]
    colours = policy_colours([row.policy for row in comparison.rows])
    with look():
        drawing = figure(7.2, 1.3 + 0.42 * max(1, len(rows)))
        axes = drawing.subplots()
        longest = max((row.intervals["mean"].high for row in rows), default=1.0) or 1.0
        for place, row in enumerate(rows):
            it = row.intervals["mean"]
            axes.barh(place, it.value, height=0.62, color=colours[row.policy])
            axes.plot([it.low, it.high], [place, place], color=INK, linewidth=1.1)
            axes.plot([it.low, it.high], [place, place], "|", color=INK, markersize=6)
            ratio = "" if row.to_bound is None else f"  {row.to_bound:.2f}x"
            axes.text(it.high + 0.012 * longest, place, f"{it.value:,.0f} s{ratio}", va="center")
        axes.set_yticks(range(len(rows)), [label(row.policy) for row in rows])
        axes.set_xlim(0, 1.22 * longest)
        axes.xaxis.set_major_formatter(_ticks(lambda value: f"{value:,.0f}"))
        axes.set_xlabel("s")
        axes.set_title("Mean completion time, with 95 % interval")
        axes.grid(axis="y", visible=False)
        axes.tick_params(axis="y", length=0)
        _draw_bound(axes, comparison, len(rows))
    return drawing


def load_over_time(results: Sequence[Result]) -> Any:
    """Draw the share of the devices held, and waiting jobs, over time; one line for each result."""
    begin = min((span(r)[0] for r in results), default=0.0)
    end = max((span(r)[1] for r in results), default=1.0)
    unit, name = time_unit(end - begin)
    edges = np.linspace(begin, max(end, begin + 1.0), POINTS + 1)
    colours = policy_colours([r.policy for r in results])
    with look():
        drawing = figure(7.2, 5.0)
        top, bottom = drawing.subplots(2, 1, sharex=True)
        for result in results:
            colour = colours[result.policy]
            mine = edges[edges <= span(result)[1]] if len(result.samples) else edges[:1]
            used = _means(sampled(result.samples, "used"), mine)
            there = _means(sampled(result.samples, "capacity"), mine)
            share = np.divide(used, there, out=np.zeros_like(used), where=there > 0)
            top.stairs(share, (mine - begin) / unit, color=colour, label=label(result.policy), lw=1.5)
            waiting = _means(sampled(result.samples, "waiting"), mine)
            bottom.stairs(waiting, (mine - begin) / unit, color=colour, lw=1.5)
        top.set(ylim=(0, 1.03), ylabel="devices held")
        top.yaxis.set_major_formatter(_percent())
        top.set_title("Load")
        bottom.set(ylabel="jobs waiting", xlabel=f"time ({name})", xlim=(0, (edges[-1] - begin) / unit))
        bottom.set_ylim(bottom=0)
        bottom.yaxis.get_major_locator().set_params(integer=True)
        if results:
            top.legend(loc="lower left", bbox_to_anchor=(0.12, 1.0), ncols=6, borderaxespad=0.4)
    return drawing


def shares_over_time(result: Result, by: By = By.APPLICATION, top: int = 8) -> Any:
    """Draw the devices held over time by the largest applications (or jobs, pools, users)."""
    keys = keys_of(result, by)
    colours = largest(result.stints, keys, top)
    begin, end = extent(result)
    unit, name = time_unit(end - begin)
    edges = np.linspace(begin, end, POINTS + 1)
    with look():
        drawing = figure(7.2, 3.8)
        axes = drawing.subplots()
        held = [held_by(result.stints, keys, group, colours) for group in colours]
        layers = [_means(each, edges) for each in held]
        at = (edges - begin) / unit
        stacked = [np.append(layer, layer[-1]) for layer in layers]
        axes.stackplot(at, *stacked, colors=list(colours.values()), step="post", linewidth=0)
        if result.samples:
            there = _means(sampled(result.samples, "capacity"), edges)
            axes.stairs(there, at, color=INK, lw=1.0, ls="--", baseline=None)
        axes.set(xlim=(at[0], at[-1]), ylabel="devices held", xlabel=f"time ({name})")
        axes.set_ylim(bottom=0)
        axes.set_title(f"Devices by {by}, {label(result.policy)}")
        shown = {g: c for (g, c), layer in zip(colours.items(), layers, strict=True) if layer.any()}
        # The first in the legend lies on top.
        order = dict(reversed(shown.items()))
        if order:
            legend(axes, order, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return drawing


def _draw_bound(axes: Any, comparison: Comparison, rows: int) -> None:
    if comparison.bounds is None:
        return
    axes.axvline(comparison.bounds.best, color=INK, linewidth=1.1, linestyle="--")
    axes.set_ylim(-0.6, rows - 0.1)
    axes.annotate(
        f"lower bound {comparison.bounds.best:,.0f} s",
        (comparison.bounds.best, rows - 0.12),
        xytext=(4, 0),
        textcoords="offset points",
        va="top",
        color=MUTED,
        fontsize=8,
    )


def _means(steps: StepFunction, edges: Floats) -> Floats:
    """Return the mean between each edge and the next."""
    return steps.mean(edges[:-1], edges[1:])


def _ticks(form: Callable[[float], str]) -> Any:
    return needed("matplotlib.ticker", "a plot").FuncFormatter(lambda value, _: form(value))


def _percent() -> Any:
    return needed("matplotlib.ticker", "a plot").PercentFormatter(1.0, decimals=0)


def _time_ticks(axes: Any) -> None:
    """Mark a logarithmic axis at round times."""
    ticker = needed("matplotlib.ticker", "a plot")
    low, high = axes.get_xlim()
    within = {at: name for at, name in _MARKS.items() if low <= at <= high}
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.set_xticks(list(within), list(within.values()))


_MARKS = {
    1.0: "1 s", 5.0: "5 s", 20.0: "20 s", 60.0: "1 min", 300.0: "5 min", 1200.0: "20 min",
    3600.0: "1 h", 14400.0: "4 h", 43200.0: "12 h", 86400.0: "1 day", 259200.0: "3 days",
    604800.0: "1 week", 2419200.0: "4 weeks",
}  # fmt: skip
