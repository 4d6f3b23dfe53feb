"""A trace's summary as text, with bars."""

from collections.abc import Iterator, Sequence

from muster.sim.trace.inspect import HOUR, Tallest, TraceSummary

BARS = "▁▂▃▄▅▆▇█"
WIDEST = 30
"""Characters of the longest bar."""
_UNITS = ((86_400.0, "d"), (HOUR, "h"), (60.0, "m"))


def shown_summary(summary: TraceSummary) -> str:
    """Format the summary on one screen."""
    if not summary.jobs:
        return "no jobs"
    return "\n".join(
        [*_heads(summary), "", *_sizes(summary), "", *_times(summary), "", *_curves(summary)]
    )


def sparkline(values: Sequence[float]) -> str:
    """Return a bar for each value; the largest is full, 0 is blank."""
    top = max(values, default=0.0)
    if top <= 0:
        return " " * len(values)
    return "".join(BARS[min(7, int(8 * value / top))] if value > 0 else " " for value in values)


def time_shown(seconds: float) -> str:
    """Format a time: `45 s`, `3.5 h`, `12 d`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _heads(summary: TraceSummary) -> Iterator[str]:
    yield f"jobs          {summary.jobs:,}, {summary.elastic:,} of them elastic"
    yield f"span          {time_shown(summary.span)}"
    yield f"device-hours  {summary.device_hours:,.0f}"
    yield f"peak          {summary.peak:,} devices if every job started at once"
    if summary.capacity:
        load = f", a load of {summary.mean_load:.2f}" if summary.mean_load is not None else ""
        yield f"capacity      {summary.capacity:,} devices{load}"
    if summary.too_large:
        yield f"too large     {summary.too_large:,} jobs ask for more devices than the cluster has"
    if summary.unknown:
        yield f"unknown       {summary.unknown:,} jobs have no run time"
    for label, names in (
        ("users", summary.users),
        ("pools", summary.pools),
        ("applications", summary.applications),
    ):
        if names.different:
            yield f"{label:<13} {_named(names)}"


def _named(names: Tallest) -> str:
    first = ", ".join(f"{name} {jobs:,}" for name, jobs in names.most[:4])
    more = names.different - min(4, len(names.most))
    return f"{names.different:,}: {first}{f' and {more:,} more' if more else ''}"


def _sizes(summary: TraceSummary) -> Iterator[str]:
    top = max(jobs for _, jobs in summary.devices)
    yield "devices       jobs"
    for devices, jobs in summary.devices:
        bar = "█" * max(1, round(WIDEST * jobs / top))
        yield f"{devices:>7,}   {jobs:>9,} {100 * jobs / summary.jobs:5.1f} % {bar}"


def _times(summary: TraceSummary) -> Iterator[str]:
    yield "run time alone on the devices asked for"
    for part, seconds in summary.durations:
        label = {0.0: "least", 0.5: "median", 1.0: "most"}.get(part, f"{100 * part:g} %")
        yield f"{label:>7}   {time_shown(seconds):>9}"


def _curves(summary: TraceSummary) -> Iterator[str]:
    each = time_shown(summary.arrivals.span)
    yield _curve(f"jobs an hour, every {each}", summary.arrivals.values)
    yield _curve("jobs an hour, by hour of the day", summary.by_hour)
    devices = summary.load.values
    if summary.capacity:
        load = [value / summary.capacity for value in devices]
        yield _curve(f"load offered, every {each}", load)
    else:
        yield _curve(f"devices asked for, every {each}", devices)


def _curve(label: str, values: Sequence[float]) -> str:
    return f"{label}: up to {max(values, default=0.0):,.3g}\n{sparkline(values)}"
