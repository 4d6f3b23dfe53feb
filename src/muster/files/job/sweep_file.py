"""Sweeps as users write them: a job with a `sweep:`."""

from collections.abc import Mapping
from difflib import get_close_matches
from math import prod
from typing import Any

from muster.files.errors import FieldError
from muster.files.job.axes import MEMBERS
from muster.files.job.job_file import entry_of, job_of
from muster.files.job.sweep_entries import SweepEntry
from muster.files.source.faults import Fault, FaultsError
from muster.model.job import Job
from muster.model.placeholders import names_in
from muster.model.sweep import INDEX, Asha, Axis, Sweep, texts_of

SWEEP = "sweep"


def sweep_in(record: Mapping[str, Any], name: str | None = None) -> Sweep:
    """Return the sweep of a JSON mapping, not yet numbered; FaultsError has all faults."""
    job, entry = job_of(record, name), entry_of(record).sweep
    try:
        if entry is None:
            raise FieldError((SWEEP,), "is missing; add for example sweep: {over: {lr: [0.1, 0.01]}}")
        sweep = _sweep(job, entry)
        refuse_unknown_names(job, [axis.name for axis in sweep.axes])
    except FieldError as error:
        raise FaultsError([Fault(error.loc, error.problem)]) from None
    return sweep


def _sweep(job: Job, entry: SweepEntry) -> Sweep:
    axes, at_most = _axes(entry)
    endless = [axis.name for axis in axes if not axis.count]
    if endless and not entry.samples:
        problem = "is a range without a number of values: add samples (--samples 20), or list values"
        raise FieldError((SWEEP, "over", endless[0]), problem)
    size = entry.samples or prod(axis.count for axis in axes)
    if size > MEMBERS:
        raise FieldError((SWEEP,), f"has {size:,} members, at most {MEMBERS:,} are allowed")
    asha = entry.asha and Asha(
        entry.asha.metric, entry.asha.mode == "max", entry.asha.rung, entry.asha.eta
    )
    most = entry.at_most or at_most
    return Sweep(0, job, axes, entry.samples or 0, entry.seed, most, asha or None)


def _axes(entry: SweepEntry) -> tuple[tuple[Axis, ...], int]:
    if (entry.over is None) == (entry.array is None):
        problem = "needs either over or array, for example over: {lr: [0.1, 0.01]}"
        raise FieldError((SWEEP,), problem)
    if entry.array is None:
        return entry.over or (), 0
    axis, at_most = entry.array
    if entry.samples:
        raise FieldError((SWEEP, "samples"), "conflicts with array, which has every index once")
    return (axis,), at_most


def refuse_unknown_names(job: Job, names: list[str]) -> None:
    """Refuse placeholders that are none of the sweep's parameters."""
    known = [*names, INDEX]
    for field, text in texts_of(job):
        for name in names_in(text):
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f" (did you mean {{{near[0]}}}?)" if near else ""
                raise FieldError(
                    (field,),
                    f"{{{name}}} is none of the sweep's parameters, {', '.join(known)}{hint}; for the "
                    f"braces themselves write {{{{{name}}}}}",
                )


def unused_names(sweep: Sweep) -> list[str]:
    """Return the parameters that no placeholder stands for; an array's index is known anyway."""
    used = {name for _, text in texts_of(sweep.template) for name in names_in(text)}
    return [axis.name for axis in sweep.axes if axis.name not in (*used, INDEX)]
