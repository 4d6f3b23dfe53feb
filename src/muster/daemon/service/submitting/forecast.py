"""Forecasts: one cycle over a queue with the job in it.

A time is told only if it rests on something: a start only if the job starts at once, since jobs ahead,
preemption and growth of others move any later one by more than it is away; a finish only from a
declared duration, from declared work and a speed that similar jobs have shown, or from a time limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.core.cycle.cycle import Memory as Remembered
from muster.core.cycle.cycle import decide
from muster.core.why.words import names_for, tell, where
from muster.daemon.loop.dependents import awaited_words
from muster.foresight.sessions import is_session
from muster.model.decision import Decision, Kind
from muster.model.job import Dependency, Job, Role
from muster.model.outlook import Outlook
from muster.model.view import View
from muster.policy.base import Policy
from muster.wire.api.records import Forecast

BY_LIMIT = "its time limit"
"""What a finish rests on of which nothing else is known."""
SHOWN = 0.5
"""Spread above which a speed is only assumed: that of a step nobody has reported is 0.69."""


@dataclass(frozen=True, slots=True)
class Question:
    """A queue with the job in it, and what is known of the others."""

    view: View
    """With outlooks, the job's own included."""
    job: int
    now: float


def forecast(policy: Policy, asked: Question) -> Forecast:
    """Return the job's decision, and its start and finish as far as they are known."""
    decided = decide(policy, asked.view, asked.now, Remembered())
    decision = next(each for each in decided.decisions if each.job == asked.job)
    job = asked.view.jobs[asked.job].job
    starts = decision.kind is Kind.START
    workers = decision.placement.count(Role.WORKER) if decision.placement else job.workers.gang
    takes, basis = _takes(asked.view.outlooks.get(asked.job), job, asked.view, workers)
    placed = where(decision.placement) if decision.placement else ""
    return Forecast(
        starts,
        placed,
        tell(decision.reason, names_for(asked.view, asked.job)),
        asked.now if starts else None,
        asked.now + takes if starts and takes is not None else None,
        _plan(job, decision),
        basis=basis if starts else "",
    )


def waiting_for(found: Forecast, awaited: Sequence[Dependency]) -> Forecast:
    """Return the forecast of a job that first waits for others to end."""
    text = awaited_words(awaited)
    return replace(
        found, starts_now=False, placement="", reason=text, start=None, finish=None, basis=""
    )


def _takes(outlook: Outlook | None, job: Job, view: View, workers: int) -> tuple[float | None, str]:
    """Return the s it would run with these workers, None if unknown, and what that rests on."""
    takes, basis = _works(outlook, job, view, workers)
    limit = job.program.time
    if limit is not None and (takes is None or limit < takes):
        return limit, BY_LIMIT
    return takes, basis


def _works(outlook: Outlook | None, job: Job, view: View, workers: int) -> tuple[float | None, str]:
    """Return the same without a time limit."""
    if is_session(job):
        return None, ""
    if job.duration is not None:
        return job.duration, "its declared duration"
    if job.work is None or outlook is None or not outlook.timed or outlook.spread > SHOWN:
        return None, ""
    types = job.device_types or view.cluster.device_types()
    rate = max((outlook.speed.rate(each, workers) for each in types), default=0.0)
    return (outlook.left / rate, "its declared work") if rate > 0 else (None, "")


def _plan(job: Job, decision: Decision) -> str:
    parts = []
    for spec in job.roles:
        count = decision.placement.count(spec.role) if decision.placement else spec.gang
        noun = spec.role.value if count == 1 else f"{spec.role.value}s"
        devices = spec.need.devices
        each = "no device" if not devices else "a device" if devices == 1 else f"{devices} devices"
        parts.append(f"{count} {noun} with {each}{' each' if count > 1 else ''}")
    how = "resized by a restart" if job.restarts else "resized live"
    parts.append(how if job.elastic else "fixed size")
    return ", ".join(parts)
