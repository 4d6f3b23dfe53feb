"""Reasons and placements as text."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

from muster.model.duration import clock as clock
from muster.model.placement import Placement
from muster.model.plan import ChosenPlan, Sync
from muster.model.reason import SENTENCES, Lack, Measure, QueueRank, QueueRival, Reason
from muster.model.topology import each_bit
from muster.model.view import View

NameOf = Callable[[int, str], str]
"""What to call a job, by its number and name: its name, or less to those who may not know it."""


def names_for(view: View, job: int) -> NameOf:
    """Return what the user of a job may know other jobs as: their own by name, others by number."""
    user = view.jobs[job].job.user

    def name_of(number: int, name: str) -> str:
        other = view.jobs.get(number)
        if other is not None and other.job.user == user:
            return name
        return f"another user's job {number}" if number else "another user's job"

    return name_of


def tell(reason: Reason, name_of: NameOf = lambda _, name: name) -> str:
    """Return one line: the sentence of the code, then its figures."""
    parts = [SENTENCES[reason.code], *_figures(reason, name_of)]
    if reason.holders and not (reason.rank and any(each.devices for each in reason.rank.ahead)):
        held = (f"{name_of(each.number, each.name)} ({each.devices})" for each in reason.holders)
        parts.append(f"held by {', '.join(held)}")
    if reason.rank is not None:
        rank = replace(reason.rank, holding=()) if reason.holders else reason.rank
        parts += [words] if (words := rank_words(rank, name_of)) else []
    if reason.would_start is not None:
        parts.append(f"would start now with {reason.would_start.field}: {reason.would_start.value}")
    return "; ".join(parts)


def _figures(reason: Reason, name_of: NameOf) -> list[str]:
    found = [reason.because] if reason.because else []
    if reason.beneficiary is not None:
        waits = reason.code.startswith("waiting.")
        name = name_of(reason.served, reason.beneficiary)
        devices = f"{reason.given} device{'s' if reason.given > 1 else ''} " if reason.given else ""
        found.append(f"{devices}{'kept for' if waits else 'for'} {name}")
    if reason.speed is not None:
        found.append(f"expected to run at {reason.speed:.2g} times its speed")
    if reason.shortfall is not None:
        short = reason.shortfall
        within = "" if short.widest.word == "any" else f" within one {short.widest.word}"
        found.append(f"needs {short.asked}, {short.free} free, at most {short.largest}{within}")
    if reason.lack is not None:
        found.append(_lacking(reason.lack))
    if reason.quantity is not None:
        q = reason.quantity
        who, what = f"pool {q.pool}", q.device_type
        if q.user:
            who, what = q.user, f"devices in pool {q.pool}"
        found.append(f"needs {q.asked}, {who} uses {q.used} of {q.bound} {what}")
    if reason.cost is not None:
        price = f"costs {reason.cost:,.0f} device-seconds"
        found.append(price if reason.gain is None else f"{price}, gains {reason.gain:,.0f}")
    if reason.avoided is not None:
        name = name_of(reason.avoided.number, reason.avoided.name)
        found.append(f"apart from {name}: beside it steps get {reason.avoided.slowed:.0%} longer")
    if reason.lost is not None:
        found.append(f"no checkpoint: {clock(reason.lost)} of work lost")
    return found


_MEASURED = {
    Measure.WORTH: "saves {} of waiting per device-second",
    Measure.SERVICE: "has had {}",
    Measure.SHARE: "has {} of its main resource",
    Measure.DELAY: "would end after {} its fair time",
    Measure.OWED: "owed {}",
    Measure.AGE: "submitted {} ago",
}


def measured(measure: Measure, value: float) -> str:
    """Return what a policy ranks a job by, in words."""
    return _MEASURED.get(measure, "{}").format(_figure(measure, value))


def _figure(measure: Measure, value: float) -> str:
    match measure:
        case Measure.WORTH:
            return f"{value:.2g} s"
        case Measure.LEFT:
            return f"{clock(value)} left" if value < inf else "length unknown"
        case Measure.SERVICE:
            return f"{value / 3600:.2g} device-hours"
        case Measure.SHARE:
            return f"{value:.0%}"
        case Measure.DELAY:
            return f"{value:.2g} times" if value < inf else "any number of times"
        case Measure.OWED | Measure.AGE:
            return clock(max(0.0, value))


def rank_words(rank: QueueRank, name_of: NameOf) -> str:
    """Return whom a job competes with: its place and value, who is ahead, and what its pool has."""
    parts = []
    if rank.place:
        before = rank.place - 1
        ahead = f"{before} waiting job{'s' if before > 1 else ''} ahead" if before else "next"
        parts.append(f"{ahead} in pool {rank.pool}")
    if rank.value is not None and _tells(rank.value):
        parts.append(measured(rank.measure, rank.value))
    if rank.urgent:
        parts.append("urgent")
    if rank.ahead:
        parts.append(f"behind {', '.join(_rival(each, rank, name_of) for each in rank.ahead)}")
    elif rank.holding:
        parts.append(f"held by {', '.join(_rival(each, rank, name_of) for each in rank.holding)}")
    if rank.entitled:
        parts.append(f"its pool uses {rank.used} of the {rank.entitled} devices it may use")
    return ", ".join(parts)


def _rival(rival: QueueRival, rank: QueueRank, name_of: NameOf) -> str:
    about = [f"{rival.devices} device{'s' if rival.devices > 1 else ''}"] if rival.devices else []
    if rival.value is not None and _tells(rival.value):
        about.append(_figure(rank.measure, rival.value))
    if rival.urgent:
        about.append("urgent")
    if rival.priority != rank.priority:
        about.append(f"priority {rival.priority}")
    name = name_of(rival.number, rival.name)
    return f"{name} ({', '.join(about)})" if about else name


def _tells(value: float) -> bool:
    """Whether a value says anything: 0 stands for one that was not worked out."""
    return value != 0.0


def _lacking(lack: Lack) -> str:
    if not lack.asked:
        return "no node with enough cores and memory has joined"
    types = " or ".join(lack.types) or "devices"
    within = "" if lack.widest.word == "any" else f" within one {lack.widest.word}"
    there = f"{lack.there} joined, at most {lack.largest} on one node"
    return f"needs {lack.asked} {types}{within}, {there if lack.there else 'none has joined'}"


def where(placement: Placement) -> str:
    """Return nodes and devices, `gpu1[0-3] gpu2[0,5]`; a node without devices in use is bare."""
    return " ".join(
        f"{node}[{_ranges(bits)}]" if bits else node for node, bits in placement.bits().items()
    )


def _ranges(bits: int) -> str:
    runs: list[list[int]] = []
    for position in each_bit(bits):
        if runs and runs[-1][-1] == position - 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


_SYNC = {
    Sync.RING: "ring",
    Sync.HIERARCHICAL: "rings inside the nodes and over them",
    Sync.SHARDED: "parameters sharded over the workers",
    Sync.DEDICATED: "parameter servers",
}


def plan_words(plan: ChosenPlan) -> str:
    """Return a plan and its runner-up in one line."""
    owned = f" {'/'.join(f'{share:.0%}' for share in plan.owners)}" if plan.owners else ""
    samples = f", samples {'/'.join(map(str, plan.batch))}" if plan.batch else ""
    words = f"{_SYNC[plan.sync]}{owned}{samples}, predicted {_short(plan.step)} a step"
    if plan.runner_up is None or plan.runner_up_step is None:
        return words
    return f"{words}; {_SYNC[plan.runner_up]} would take {_short(plan.runner_up_step)}"


def _short(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
