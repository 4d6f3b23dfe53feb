"""Records of sweeps and their members, from their state and their jobs' records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from muster.core.sweeps.next_steps import Doing
from muster.core.sweeps.sweep_state import SweepState, SweepStates, fold_sweep, outcome_of
from muster.daemon.loop.dependents import awaited_words
from muster.model.sweep import (
    Asha,
    Axis,
    Sweep,
    SweepDependencyMet,
    SweepEnded,
    SweepFact,
    SweepResized,
    SweepSkipped,
    SweepStopped,
    SweepSubmitted,
)
from muster.model.task import Fact, job_of
from muster.wire.api.job_records import OVER
from muster.wire.api.job_relations import ParentRecord
from muster.wire.api.records import JobRecord
from muster.wire.api.sweep_records import (
    FINISHED,
    SKIPPED,
    STOPPED,
    SWEEP_OVER,
    MemberRecord,
    SweepRecord,
)

_CHANGES = (SweepSubmitted, SweepResized, SweepStopped, SweepDependencyMet, SweepSkipped)
"""Facts that change how a live sweep is listed."""
TO_COME = "to come"
_DOING = {
    Doing.RUNS: "running",
    Doing.WAITS: "waiting",
    Doing.PAUSES: "paused",
    Doing.LEAVES: "stopping",
}
_ORDER = (TO_COME, *_DOING.values(), *OVER)
"""Words of what members do, as they are listed, whichever was the first."""


def sweep_record(state: SweepState, doing: Iterable[Doing] = ()) -> SweepRecord:
    """Return the list entry of a live sweep, whose live members do this."""
    status = "stopping" if state.stopped else "waiting" if state.sweep.awaited else "running"
    return _record(state, doing, status, None)


def ended_as(record: SweepRecord) -> str:
    """Return how a sweep has ended, for those after it; empty: it has not."""
    if record.outcome or record.status not in SWEEP_OVER:
        return record.outcome
    ends = {STOPPED: "cancelled", SKIPPED: "skipped"}
    return ends.get(record.status) or outcome_of(record.counts)


def changed_records(before: SweepStates, facts: Sequence[Fact]) -> tuple[SweepRecord, ...]:
    """Return the list entries of sweeps that these facts change, after them."""
    if not any(isinstance(fact, SweepFact) for fact in facts):
        return ()
    sweeps, found = before, {}
    for fact in facts:
        if isinstance(fact, SweepEnded) and fact.sweep in sweeps:
            last = sweeps[fact.sweep]
            status = SKIPPED if last.skipped else STOPPED if last.stopped else FINISHED
            found[fact.sweep] = _record(last, (), status, fact.at)
        sweeps = fold_sweep(sweeps, fact)
        if isinstance(fact, _CHANGES):
            number = job_of(fact) or 0
            if number in sweeps:
                found[number] = sweep_record(sweeps[number])
    return tuple(found.values())


def _record(state: SweepState, doing: Iterable[Doing], status: str, ended: float | None) -> SweepRecord:
    sweep, template = state.sweep, state.sweep.template
    counts = Counter({TO_COME: state.to_come})
    counts.update(_DOING[each] for each in doing)
    counts.update(state.over.values())
    return SweepRecord(
        number=sweep.number,
        name=sweep.name,
        user=sweep.user,
        pool=template.pool,
        status=status,
        members=sweep.size,
        counts={word: counts[word] for word in sorted(counts, key=_ORDER.index) if counts[word]},
        over={axis.name: axis_text(axis) for axis in sweep.axes},
        at_most=state.at_most or None,
        metric=sweep.asha.metric if sweep.asha else "loss",
        largest=sweep.asha.largest if sweep.asha else False,
        asha=asha_text(sweep.asha) if sweep.asha else "",
        submitted=state.submitted,
        ended=ended,
        after=tuple(
            ParentRecord(each.number, each.job, each.when, each.met) for each in template.after
        ),
        reason=state.skipped or (awaited_words(sweep.awaited) if sweep.awaited else ""),
        outcome="" if ended is None else state.outcome,
    )


def axis_text(axis: Axis) -> str:
    """Return the values of a parameter as a user writes them."""
    if axis.values:
        return ",".join(axis.values)
    low, high = (f"{int(end)}" if axis.whole else f"{end:g}" for end in (axis.low, axis.high))
    return f"{low}..{high}{':log' if axis.log else ''}"


def asha_text(asha: Asha) -> str:
    """Return how losers are stopped."""
    which = "largest" if asha.largest else "smallest"
    rungs = ", ".join(str(asha.epochs(rung)) for rung in range(3))
    return f"the {which} {asha.metric} goes on: 1 of {asha.eta} at epochs {rungs}, ..."


def member_records(
    sweep: Sweep, jobs: Mapping[int, JobRecord], continued: Mapping[str, JobRecord]
) -> tuple[MemberRecord, ...]:
    """Return all members in order, each as it was last run; `jobs`: the records of those that have one,
    `continued`: by name, the jobs that went on from where members had stopped."""
    return tuple(
        _last_run(_member(sweep, place, jobs.get(sweep.job_number(place))), continued)
        for place in range(sweep.size)
    )


def _last_run(member: MemberRecord, continued: Mapping[str, JobRecord]) -> MemberRecord:
    """A member as the job shows it that continued it, if one did."""
    job = continued.get(member.name)
    if job is None:
        return member
    why = f"continues job {member.number}, {member.status}"
    reason = f"{why}; {_reason(job)}" if _reason(job) else why
    return replace(
        member,
        status=job.status,
        number=job.number,
        metrics=_metrics(job) or member.metrics,
        epoch=member.epoch if job.epoch is None else job.epoch,
        reason=reason,
        started=job.started,
        ended=job.ended,
    )


def _member(sweep: Sweep, place: int, job: JobRecord | None) -> MemberRecord:
    label, params = sweep.label(place), sweep.params(place)
    if job is None:
        return MemberRecord(label, params, TO_COME, name=sweep.member_name(place))
    return MemberRecord(
        label,
        params,
        job.status,
        job.number,
        job.name,
        _metrics(job),
        job.epoch,
        job.rung,
        _reason(job),
        job.started,
        job.ended,
    )


def _metrics(job: JobRecord) -> dict[str, float]:
    """What a job reports, and the loss of a training of the runtime."""
    return dict(job.metrics) if job.loss is None else {"loss": job.loss, **job.metrics}


def _reason(job: JobRecord) -> str:
    return (job.error or job.reason).partition("\n")[0]
