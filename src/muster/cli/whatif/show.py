"""The answer as a table."""

from collections.abc import Callable, Iterator

from muster.cli.render.table import table
from muster.cli.render.words import clock, counted
from muster.wire.api.whatif_records import FigureRecord, IntervalRecord, WhatIfJob, WhatIfReport

SHOWN = 20
"""Jobs of the table, unless all are asked for."""
WIDEST, SOON = 20.0, 10.0
"""Ratio of the ends of an interval, in time from now and each at least that many s, beyond which a time
is unknown."""
_ORDER = ("new", "never", "later", "earlier", "unclear", "same")
"""Verdicts; what needs attention first."""
NEVER = 90 * 86_400.0 - 60.0
"""s from now from which on a job never starts or ends: 90 days are played."""
NOTICED = 1.0
"""s: differences below it are none."""
_PAIRED = "CHANGE: median of the differences within each future; THEN minus NOW may differ"


def what_if_text(report: WhatIfReport, said: str, *, every: bool = False) -> str:
    """Return the answer: jobs, then the figures of the whole cluster."""
    jobs = sorted(report.jobs, key=lambda each: (_ORDER.index(each.verdict), each.number))
    shown = jobs if every else [each for each in jobs if each.verdict != "same"][:SHOWN]
    parts = [f"What if: {said} ({counted(report.worlds, 'future')} on each side)"]
    if shown:
        parts.append(_jobs(report, shown))
    parts.append("\n".join(_rest(report, len(jobs) - len(shown))))
    parts.append(_figures(report))
    return "\n\n".join(part for part in parts if part)


def _jobs(report: WhatIfReport, jobs: list[WhatIfJob]) -> str:
    now = report.now
    rows = [
        (
            f"{each.number} ({each.name})" if each.verdict != "new" else f"new ({each.name})",
            each.pool,
            _from_to(each.before_start, each.after_start, now),
            _from_to(each.before_finish, each.after_finish, now),
            _later(each, now),
        )
        for each in jobs
    ]
    return table(("JOB", "POOL", "STARTS", "ENDS", "DIFFERENCE"), rows, left=(0, 1, 2, 3, 4))


def _from_to(before: IntervalRecord | None, after: IntervalRecord | None, now: float) -> str:
    """`in 4m -> in 2m`; `-`: it has started."""
    if after is None:
        return "-"
    told = _time(after, now)
    known = told if before is None else _time(before, now)
    return told if known == told else f"{known} -> {told}"


def _time(found: IntervalRecord, now: float) -> str:
    if _is_never(found.middle, now):
        return "never"
    if found.high - now > WIDEST * max(found.low - now, SOON):
        return "unknown"
    return "now" if found.middle - now < NOTICED else f"in {clock(found.middle - now)}"


def _is_never(at: float, now: float) -> bool:
    return at - now >= NEVER


_PLAIN = {"never": "never ends", "same": "same"}
"""Verdicts that need no figures."""


def _later(job: WhatIfJob, now: float) -> str:
    found, before = job.finish_change, job.before_finish
    if found is None or before is None:
        return "new"
    if job.verdict in _PLAIN:
        return _PLAIN[job.verdict]
    if _is_never(before.middle, now):
        return "ends only then"
    told = f"{clock(abs(found.middle))} {job.verdict}" if abs(found.middle) >= NOTICED else "same"
    if job.verdict == "unclear":  # later in some futures, earlier in others
        told = f"unclear: {_signed(found.middle)}"
    if any(_is_never(each.high, now) for each in (before, job.after_finish)):
        return f"{told}, in some futures never"
    return f"{told} ({_range(found)})"


def _range(found: IntervalRecord) -> str:
    if found.low * found.high > 0:
        near, far = sorted((abs(found.low), abs(found.high)))
        return f"{clock(near)} to {clock(far)}"
    return f"{_signed(found.low)} to {_signed(found.high)}"


def _signed(seconds: float) -> str:
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{clock(abs(seconds))}" if abs(seconds) >= NOTICED else "0s"


def _rest(report: WhatIfReport, left: int) -> Iterator[str]:
    words = [f"{report.counts[each]} {each}" for each in _ORDER if report.counts.get(each)]
    yield f"{counted(sum(report.counts.values()), 'job')}: {', '.join(words) or 'none live'}"
    hidden = sum(report.counts.values()) - len(report.jobs)
    if left:
        yield f"{counted(left, 'job')} not shown (--all shows them)"
    if hidden:
        yield f"{counted(hidden, 'job')} of other users counted, not shown"
    if report.counts.get("never"):
        yield "means and the last end are of the jobs that end on both sides"


def _figures(report: WhatIfReport) -> str:
    rows = [
        _row("mean completion", report.completion, _span, _signed),
        _row("last job ends after", report.makespan, _span, _signed),
        _row("devices in use", report.used, _percent, _points),
        _row("devices free in pieces", report.fragmentation, _percent, _points),
    ]
    rows += [_row(f"pool {name}", each, _devices, _more) for name, each in report.pools.items()]
    figures = table(("", "NOW", "THEN", "CHANGE (80% INTERVAL)"), rows, left=(0, 3))
    return f"{figures}\n{_PAIRED}"


def _row(
    name: str,
    figure: FigureRecord,
    told: Callable[[float], str],
    difference: Callable[[float], str],
) -> tuple[str, ...]:
    change = figure.change
    middle, low, high = (difference(each) for each in (change.middle, change.low, change.high))
    interval = middle if middle == low == high else f"{middle} ({low} to {high})"
    return name, told(figure.before.middle), told(figure.after.middle), interval


def _span(seconds: float) -> str:
    return clock(seconds) if seconds else "-"  # no job ends on both sides


def _percent(part: float) -> str:
    return f"{part:.0%}"


def _points(part: float) -> str:
    return f"{100 * part:+.0f} points" if round(100 * part) else "0"


def _devices(count: float) -> str:
    return f"{count:.1f} devices"


def _more(count: float) -> str:
    return f"{count:+.1f}" if abs(count) >= 0.05 else "0"
