"""Forecasts: one cycle over a queue with the job in it."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.core.cycle.cycle import Memory as Remembered
from muster.core.cycle.cycle import decide
from muster.core.why.words import names_for, tell, where
from muster.model.decision import Decision, Kind
from muster.model.job import Job, Role
from muster.model.outlook import Outlook
from muster.model.view import View
from muster.policy.base import Policy
from muster.wire.records import Forecast

GUESS = 0.9
"""Spread above which no finish is predicted: that of an unknown job is 1.1, a factor of 3."""


@dataclass(frozen=True, slots=True)
class Question:
    """A queue with the job in it, and what is known of the others."""

    view: View
    """With outlooks, the job's own included."""
    job: int
    finishes: Mapping[int, float]
    """When running jobs are expected to end, if known."""
    now: float


def forecast(policy: Policy, asked: Question) -> Forecast:
    """Return the job's decision, and its expected start and finish."""
    decided = decide(policy, asked.view, asked.now, Remembered())
    decision = next(each for each in decided.decisions if each.job == asked.job)
    job = asked.view.jobs[asked.job].job
    starts = decision.kind is Kind.START
    start = asked.now if starts else _room(asked, job)
    workers = decision.placement.count(Role.WORKER) if decision.placement else job.workers.gang
    finish = _finish(asked.view.outlooks.get(asked.job), job, asked.view, workers, start)
    placed = where(decision.placement) if decision.placement else ""
    return Forecast(
        starts,
        placed,
        tell(decision.reason, names_for(asked.view, asked.job)),
        start,
        finish,
        _plan(job, decision),
    )


def _room(asked: Question, job: Job) -> float | None:
    """When enough devices for its gang will be free; None if unknown."""
    cluster = asked.view.cluster
    wanted = job.device_types or cluster.device_types()
    free = sum(
        node.free.bit_count()
        for node in cluster.nodes
        if cluster.configuration_of(node).device_type in wanted
    )
    need = sum(spec.gang * spec.need.devices for spec in job.roles)
    ends = sorted((end, number) for number, end in asked.finishes.items())
    for end, number in ends:
        placed = asked.view.jobs[number].placement
        free += placed.devices if placed else 0
        if free >= need:
            return end
    return None


def _finish(
    outlook: Outlook | None, job: Job, view: View, workers: int, start: float | None
) -> float | None:
    """When it would end, from its work left and its speed with these workers."""
    if job.duration is not None and start is not None:
        return start + job.duration
    if outlook is None or start is None or outlook.spread > GUESS:
        return None
    types = job.device_types or view.cluster.device_types()
    rate = max((outlook.speed.rate(each, workers) for each in types), default=0.0)
    return start + outlook.left / rate if rate > 0 else None


def _plan(job: Job, decision: Decision) -> str:
    parts = []
    for spec in job.roles:
        count = decision.placement.count(spec.role) if decision.placement else spec.gang
        noun = spec.role.value if count == 1 else f"{spec.role.value}s"
        devices = spec.need.devices
        each = "no device" if not devices else "a device" if devices == 1 else f"{devices} devices"
        parts.append(f"{count} {noun} with {each} each")
    how = "resized by a restart" if job.restarts else "resized live"
    parts.append(how if job.elastic else "fixed size")
    return ", ".join(parts)
