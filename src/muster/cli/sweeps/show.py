"""A sweep as a table: a row for each member, the best first."""

from collections.abc import Sequence

from muster.cli.render.table import table
from muster.cli.render.terminal import bold, painted
from muster.cli.render.words import counted
from muster.wire.api.sweep_records import MemberRecord, SweepDetail, SweepRecord, best_first

METRICS_SHOWN = 4
"""Columns of metrics beside the one that ranks."""


def sweep_page(
    detail: SweepDetail, metric: str | None = None, *, largest: bool | None = None, limit: int = 0
) -> str:
    """Render a sweep and its members, at most `limit` of them (0: all)."""
    sweep = detail.sweep
    name = metric or sweep.metric
    ranked = best_first(detail.members, name, largest=is_largest(sweep, name, largest))
    known = [each for each in ranked if each.status != "to come"]
    shown = known[:limit] if limit else known
    lines = [f"{bold(f'sweep {sweep.number} ({sweep.name})')}: {sweep_words(sweep)}"]
    if sweep.asha:
        lines.append(sweep.asha)
    if shown:
        lines += ["", member_table(shown, name)]
    if len(shown) < len(known):
        lines.append(f"and {len(known) - len(shown):,} more: -n N")
    return "\n".join(lines)


def is_largest(sweep: SweepRecord, metric: str, given: bool | None) -> bool:
    """Whether the largest is the best: as given, else as the sweep itself ranks by this metric."""
    if given is not None:
        return given
    return sweep.largest if metric == sweep.metric else False


def sweep_words(sweep: SweepRecord) -> str:
    """How far a sweep is, in one line."""
    counts = ", ".join(f"{count:,} {word}" for word, count in sweep.counts.items())
    most = f"; at most {sweep.at_most} at once" if sweep.at_most else ""
    told = f": {counts}" if counts else ""
    why = f"; {sweep.reason}" if sweep.reason else ""
    return f"{sweep.status}, {counted(sweep.members, 'member')}{told}{most}{why}"


def member_table(members: Sequence[MemberRecord], metric: str) -> str:
    """Render members as rows, in the order given."""
    params = list(dict.fromkeys(name for each in members for name in each.params))
    params = [] if params == ["index"] else params
    reported = {name for each in members for name in each.metrics}
    metrics = [metric, *sorted(reported - {metric})[:METRICS_SHOWN]] if reported else []
    epochs = bool(reported) or any(each.epoch is not None for each in members)
    rungs = any(each.rung for each in members)
    heading = ["INDEX", "JOB", *map(str.upper, params), *map(str.upper, metrics)]
    heading += [*(["EPOCH"] if epochs else []), *(["RUNG"] if rungs else []), "STATUS", "WHY"]
    rows = [
        [
            each.index,
            "-" if each.number is None else str(each.number),
            *(each.params.get(name, "-") for name in params),
            *(_value(each.metrics.get(name)) for name in metrics),
            *(["-" if each.epoch is None else str(each.epoch)] if epochs else []),
            *([str(each.rung or "-")] if rungs else []),
            painted(each.status),
            each.reason or "-",
        ]
        for each in members
    ]
    return table(heading, rows, left=(len(heading) - 2, len(heading) - 1))


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def sweep_table(sweeps: Sequence[SweepRecord]) -> str:
    """Render sweeps as rows."""
    rows = [
        (
            str(each.number),
            each.name,
            each.user,
            painted(each.status),
            f"{each.members:,}",
            " ".join(f"{name}={values}" for name, values in each.over.items()),
            ", ".join(f"{count:,} {word}" for word, count in each.counts.items()),
        )
        for each in sweeps
    ]
    heading = ("ID", "NAME", "USER", "STATUS", "MEMBERS", "OVER", "NOW")
    return table(heading, rows, left=(1, 2, 3, 5, 6))
