"""Compare policies on the same jobs and seeds, with each other and with the bound."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan

import numpy as np

from muster.files.errors import InputError
from muster.sim.report.bootstrap import DRAWS, Draws, Interval, draws, mean, quantiles
from muster.sim.report.bounds import CompletionBounds, bounds_of
from muster.sim.report.curve import Floats
from muster.sim.report.metrics import RunSummary, summary
from muster.sim.result import Fate, Result

_FIGURES = ("mean", "median", "p95", "p99")
"""The figures that come with intervals."""


@dataclass(frozen=True, slots=True)
class Digest:
    """The part of a simulation that a comparison needs: a fortieth of its records' memory."""

    policy: str
    seed: int
    hash: str
    configuration: Mapping[str, object]
    summary: RunSummary
    devices: int
    """The most there ever were."""
    jobs: tuple[str, ...]
    submitted: Floats
    times: Floats
    """Completion times in s; NaN for an unfinished job."""
    best: Floats
    least: Floats
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One policy. Figures are means over the seeds; the worst is the worst of all."""

    policy: str
    figures: Mapping[str, float | None]
    """By the names of RunSummary."""
    intervals: Mapping[str, Interval]
    """Completion times in s (mean, median, p95, p99) of the jobs completed under all policies."""
    against: Interval | None
    """The mean / that of the reference policy, job by job."""
    to_bound: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Policies on the same jobs, in the order given."""

    rows: tuple[Row, ...]
    reference: str
    seeds: tuple[int, ...]
    jobs: int
    """Jobs completed under all policies, of all seeds."""
    bounds: CompletionBounds | None
    """The mean over the seeds."""
    configuration: Mapping[str, object]
    """Of the first simulation."""
    hashes: Mapping[str, str]
    """By policy and seed, `policy/seed`."""
    notes: tuple[str, ...] = ()


def digest(result: Result) -> Digest:
    records = result.records
    times = [
        r.ended - r.submitted if r.fate is Fate.DONE and r.ended is not None else nan for r in records
    ]
    return Digest(
        policy=result.policy,
        seed=result.seed,
        hash=result.hash,
        configuration=result.configuration,
        summary=summary(result),
        devices=max((s.capacity for s in result.samples), default=0),
        jobs=tuple(r.name for r in records),
        submitted=np.array([r.submitted for r in records]),
        times=np.array(times),
        best=np.array([r.best for r in records]),
        least=np.array([r.least for r in records]),
        notes=result.notes,
    )


def compare(
    digests: Iterable[Digest], reference: str | None = None, *, seed: int = 0, count: int = DRAWS
) -> Comparison:
    """Compare policies with each other and the bound; `reference` is the first unless given."""
    runs: dict[str, dict[int, Digest]] = {}
    for each in digests:
        runs.setdefault(each.policy, {})[each.seed] = each
    policies = list(runs)
    if not policies:
        raise InputError("nothing to compare")
    if reference is not None and reference not in runs:
        raise InputError(f"'{reference}' is not among the policies compared: {', '.join(policies)}")
    seeds = tuple(sorted(set.intersection(*(set(by_seed) for by_seed in runs.values()))))
    if not seeds:
        raise InputError("no seed was simulated under all of the policies")
    kept = [[runs[policy][number] for policy in policies] for number in seeds]
    return _compared(kept, policies, reference or policies[0], _left_out(runs, seeds), seed, count)


def _compared(
    kept: Sequence[Sequence[Digest]],
    policies: Sequence[str],
    reference: str,
    notes: tuple[str, ...],
    seed: int,
    count: int,
) -> Comparison:
    """Compare digests by seed and policy."""
    common = [_common(same_seed) for same_seed in kept]
    tables = [
        np.stack([d.times[rows] for d, rows in zip(line, chosen, strict=True)], axis=1)
        for line, chosen in zip(kept, common, strict=True)
    ]
    drawn = _drawn([table for table in tables if len(table)], len(policies), seed, count)
    bound = _bound(kept, common)
    base = policies.index(reference)
    rows = [_row([line[i] for line in kept], i, base, drawn, bound) for i in range(len(policies))]
    jobs = sum(len(table) for table in tables)
    return Comparison(
        rows=tuple(rows),
        reference=reference,
        seeds=tuple(line[0].seed for line in kept),
        jobs=jobs,
        bounds=bound,
        configuration=kept[0][0].configuration,
        hashes={f"{d.policy}/{d.seed}": d.hash for line in kept for d in line},
        notes=(*notes, *_partial(kept, jobs), *_said(kept)),
    )


def _row(
    runs: Sequence[Digest],
    index: int,
    base: int,
    drawn: Mapping[str, Draws],
    bound: CompletionBounds | None,
) -> Row:
    intervals = {name: figure.interval(index) for name, figure in drawn.items()}
    against = drawn["mean"].ratio(index, base) if drawn and drawn["mean"].value[base] > 0 else None
    possible = bound.best if bound is not None else 0.0
    return Row(
        policy=runs[0].policy,
        figures=_averaged([d.summary for d in runs]),
        intervals=intervals,
        against=against,
        to_bound=intervals["mean"].value / possible if intervals and possible > 0 else None,
    )


def _drawn(tables: Sequence[Floats], policies: int, seed: int, count: int) -> dict[str, Draws]:
    """Resample each figure on the same draws; empty if no job is completed under all policies."""
    if not tables:
        return {}
    others = quantiles(0.5, 0.95, 0.99)

    def together(values: Floats, counts: Floats) -> Floats:
        return np.concatenate([mean(values, counts), others(values, counts)], axis=1)

    all_of_them = draws(tables, together, seed=seed, count=count)
    columns = [slice(k * policies, (k + 1) * policies) for k in range(len(_FIGURES))]
    return {
        name: Draws(all_of_them.value[part], all_of_them.drawn[:, part])
        for name, part in zip(_FIGURES, columns, strict=True)
    }


def _common(runs: Sequence[Digest]) -> list[list[int]]:
    """Return for each run the rows of the jobs completed in all, in one order."""
    where = [
        {name: row for row, name in enumerate(run.jobs) if not np.isnan(run.times[row])} for run in runs
    ]
    names = [name for name in where[0] if all(name in others for others in where[1:])]
    return [[rows[name] for name in names] for rows in where]


def _bound(
    kept: Sequence[Sequence[Digest]], common: Sequence[Sequence[list[int]]]
) -> CompletionBounds | None:
    """Return the bounds of the common jobs, the same for all policies; the mean over the seeds."""
    each = [
        bounds_of(line[0].submitted[rows[0]], line[0].best[rows[0]], line[0].least[rows[0]], devices)
        for line, rows in zip(kept, common, strict=True)
        if rows[0] and (devices := max(d.devices for d in line))
    ]
    if not each:
        return None
    alone, machine, mixed = np.mean([(b.alone, b.machine, b.mixed) for b in each], axis=0).tolist()
    return CompletionBounds(alone, machine, mixed)


def _averaged(summaries: Sequence[RunSummary]) -> dict[str, float | None]:
    """Return means over the seeds; the worst of the worst."""
    columns = [asdict(each) for each in summaries]
    known = {name: [c[name] for c in columns if c[name] is not None] for name in columns[0]}
    joined = {name: max if name == "rho_worst" else np.mean for name in known}
    return {name: float(joined[name](values)) if values else None for name, values in known.items()}


def _left_out(runs: Mapping[str, Mapping[int, Digest]], seeds: tuple[int, ...]) -> tuple[str, ...]:
    extra = sorted({number for by_seed in runs.values() for number in by_seed} - set(seeds))
    if not extra:
        return ()
    return (f"seeds {', '.join(map(str, extra))} left out: not simulated under all policies",)


def _partial(kept: Sequence[Sequence[Digest]], jobs: int) -> tuple[str, ...]:
    """Return a note if some policy finished jobs that another did not."""
    most = max(sum(line[i].summary.done for line in kept) for i in range(len(kept[0])))
    if most == jobs:
        return ()
    return (
        f"completion times and ratios are of the {jobs:,} jobs done under all policies, not {most:,}",
    )


def _said(kept: Sequence[Sequence[Digest]]) -> list[str]:
    """Return the simulations' own notes, each with its policies unless all have it."""
    by_note: dict[str, dict[str, None]] = {}
    for run in (run for line in kept for run in line):
        for note in run.notes:
            by_note.setdefault(note, {})[run.policy] = None
    everybody = len(kept[0])
    return [n if len(by) == everybody else f"{', '.join(by)}: {n}" for n, by in by_note.items()]
