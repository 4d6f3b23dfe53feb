"""Pilots as a value: which allocations there are, and what to submit, cancel and announce.

A pilot is one allocation of one node. It waits in Slurm's queue, runs an agent, and ends: its time is
over, Slurm wants the node back, or nobody needs it. It is *fresh* while it may take work, and *leaving*
once its node was told to depart. Pure: `now` is given, in s of any one clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType

from muster.model.duration import spelt
from muster.ports import NodeDemand, NodeDeparts, NodeGone, ProviderNews

JOIN_WITHIN = 300.0
"""s for the agent of a running pilot to dial."""
EMPTY_FOR = 2.0
"""s after which a departing node without tasks is believed to get none: an order decided before may
have been on its way."""
RETRY, RETRY_MOST = 5.0, 600.0
"""s before the next attempt after pilots that never joined, doubled each time."""
FOREVER = 30 * 86_400.0
"""s that a node without a time limit is given to empty itself."""


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job of Slurm's queue that is a pilot of ours."""

    number: int
    running: bool
    ended: str = ""
    """Why it has ended; empty: it has not."""
    host: str = ""
    left: float | None = None
    """s until its time limit; None: no limit, or not running."""
    grace: float | None = None
    """s that it was given when Slurm began to take its node back; None: Slurm does not."""
    reason: str = ""
    """Why it waits."""
    ending: bool = False
    """Whether Slurm is already ending it."""


@dataclass(frozen=True, slots=True)
class Pilot:
    """What is known of a pilot that has not ended."""

    job: int
    since: float
    """When it was first seen, or first seen running."""
    host: str = ""
    """Its machine; empty: it waits."""
    left: float | None = None
    joined: bool = False
    """Whether the daemon has had its node."""
    idle: float | None = None
    """Since when nobody needs it."""
    unused: float | None = None
    """When the daemon last said so; None: somebody needs it."""
    busy: bool = False
    """Whether the daemon last said that there is work on it."""
    leaving: float | None = None
    """Since when its node departs."""
    preempted: bool = False
    """Whether Slurm has said when it takes the node back."""
    reason: str = ""

    @property
    def node(self) -> str:
        """Name of its node. The job's number is part of it: an allocation that follows on the same
        machine is another node, whose tasks nobody can mistake for the old one's."""
        return node_name(self.host, self.job) if self.host else ""

    @property
    def running(self) -> bool:
        """Whether it has a machine."""
        return bool(self.host)


def node_name(host: str, job: int) -> str:
    """Return the name of the node that a pilot brings."""
    return f"{host}-{job}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the administrator allows."""

    least: int
    most: int
    devices: int
    """Of one pilot."""
    idle: float
    lead: float
    """s before an allocation ends at which its replacement is submitted."""
    grace: float
    """s before it ends at which its node departs, replaced or not."""


@dataclass(frozen=True, slots=True)
class Pilots:
    """All pilots that have not ended."""

    known: Mapping[int, Pilot] = field(default_factory=lambda: MappingProxyType({}))
    failures: int = 0
    """Pilots in a row that ended before they had joined."""
    retry_at: float = 0.0

    def with_(self, changed: Iterable[Pilot]) -> "Pilots":
        """Return them with some changed or added."""
        return replace(self, known={**self.known, **{each.job: each for each in changed}})


@dataclass(frozen=True, slots=True)
class Steps:
    """What is to be done."""

    submit: int = 0
    cancel: tuple[int, ...] = ()
    news: tuple[ProviderNews, ...] = ()


# --- what Slurm says ---


def follow(
    pilots: Pilots, listed: Iterable[SlurmJob], draining: Mapping[str, str], now: float
) -> tuple[Pilots, tuple[ProviderNews, ...]]:
    """Fold what Slurm lists, pilots of an earlier daemon among it; a pilot that it no longer lists has
    ended. `draining`: machines that an administrator takes out, and why."""
    jobs = {job.number: job for job in listed}
    live = {number: job for number, job in jobs.items() if not job.ended}
    ended = [each for each in pilots.known.values() if each.job not in live]
    news: list[ProviderNews] = [
        NodeGone(each.node, _ending(jobs.get(each.job))) for each in ended if each.running
    ]
    known = {}
    for number, job in live.items():
        pilot = _seen(pilots.known.get(number), job, now)
        if told := _departure(pilot, job, draining):
            pilot = replace(pilot, leaving=now, preempted=job.grace is not None)
            news.append(told)
        known[number] = pilot
    failed = sum(each.running and not each.joined and each.leaving is None for each in ended)
    return _failed(replace(pilots, known=known), failed, now), tuple(news)


def _ending(job: SlurmJob | None) -> str:
    return f"Slurm: {job.ended}" if job else "Slurm no longer lists its allocation"


def _seen(before: Pilot | None, job: SlurmJob, now: float) -> Pilot:
    if before is None or (job.running and not before.running):
        return Pilot(job.number, now, job.host if job.running else "", job.left, reason=job.reason)
    return replace(before, left=job.left, reason=job.reason)


def _departure(pilot: Pilot, job: SlurmJob, draining: Mapping[str, str]) -> NodeDeparts | None:
    if not pilot.running:
        return None
    if job.grace is not None and not pilot.preempted:
        # As the pilot's script says it: one departure, whoever tells of it first.
        why = "Slurm ends its allocation" if job.ending else "preempted by Slurm"
        return NodeDeparts(pilot.node, job.grace, why)
    if pilot.host in draining and pilot.leaving is None:
        why = f"drained in Slurm: {draining[pilot.host]}"
        return NodeDeparts(pilot.node, _time_left(pilot), why)
    return None


def _time_left(pilot: Pilot) -> float:
    return FOREVER if pilot.left is None else max(0.0, pilot.left)


def _failed(pilots: Pilots, count: int, now: float) -> Pilots:
    if not count:
        return pilots
    failures = pilots.failures + 1
    wait = min(RETRY_MOST, RETRY * 2.0 ** min(failures - 1, 16))
    return replace(pilots, failures=failures, retry_at=now + wait)


def refused(pilots: Pilots, now: float) -> Pilots:
    """Wait before the next submission: Slurm has refused one."""
    return _failed(pilots, 1, now)


# --- what the daemon says ---


def regard(pilots: Pilots, demand: NodeDemand, connected: frozenset[str], said: float) -> Pilots:
    """Fold which nodes have joined and which nobody needs, as the daemon said some time ago."""
    nodes, idle = connected.union(demand.nodes), set(demand.idle)
    known = {}
    for job, pilot in pilots.known.items():
        unused = pilot.node in idle
        known[job] = replace(
            pilot,
            joined=pilot.joined or pilot.node in nodes,
            idle=(said if pilot.idle is None else pilot.idle) if unused else None,
            unused=said if unused else None,
            busy=pilot.node in demand.nodes and not unused,
        )
    came = any(each.joined and not pilots.known[job].joined for job, each in known.items())
    after = replace(pilots, known=known)
    return replace(after, failures=0, retry_at=0.0) if came else after


# --- what to do ---


def steer(pilots: Pilots, demand: NodeDemand, bounds: Bounds, now: float) -> tuple[Pilots, Steps]:
    """Return what brings the pilots nearer to the demand, and the pilots once it is done."""
    fresh = [each for each in pilots.known.values() if each.leaving is None]
    ending = [each for each in fresh if _ends(each, bounds)]
    staying = [each for each in fresh if not _ends(each, bounds)]
    here = [each for each in staying if each.joined]
    coming = [each for each in staying if not each.joined]
    stuck = [each for each in coming if each.running and now - each.since > JOIN_WITHIN]
    target = _target(pilots, here, demand, bounds)
    missing = target - len(here) - len(coming)
    submit = max(0, missing) if now >= pilots.retry_at else 0
    leave = _replaced(ending, len(here) >= target, bounds) + _idle(here, bounds, now)
    changed = tuple(replace(each, leaving=now) for each, _ in leave)
    surplus = _surplus(coming, -missing, bounds, now)
    empty = [each for each in pilots.known.values() if _emptied(each)]
    cancel = tuple(each.job for each in (*surplus, *stuck, *empty))
    news = tuple(NodeDeparts(each.node, _time_left(each), why) for each, why in leave)
    return pilots.with_(changed), Steps(submit, tuple(dict.fromkeys(cancel)), news)


def without_tasks(pilots: Pilots, demand: NodeDemand) -> tuple[int, ...]:
    """Return the pilots that surely have no task: those that wait, and nodes that nobody needs."""
    idle = set(demand.idle)
    known = pilots.known.values()
    return tuple(each.job for each in known if not each.running or each.node in idle)


def _ends(pilot: Pilot, bounds: Bounds) -> bool:
    return pilot.running and pilot.left is not None and pilot.left <= bounds.lead


def _target(pilots: Pilots, here: list[Pilot], demand: NodeDemand, bounds: Bounds) -> int:
    """Nodes that shall stay: those here, as many as the queue needs beyond them, and one for each that
    is about to end with work on it, unless one here is free for that."""
    wanted = ceil(sum(demand.devices.values()) / max(1, bounds.devices))
    free = sum(each.idle is not None for each in here)
    old = [
        each
        for each in pilots.known.values()
        if each.busy and (each.leaving is not None or _ends(each, bounds))
    ]
    return min(bounds.most, max(bounds.least, len(here) + wanted + max(0, len(old) - free)))


def _replaced(ending: list[Pilot], enough: bool, bounds: Bounds) -> list[tuple[Pilot, str]]:
    """Nodes that may be emptied: what replaces them is here, or they end soon."""
    return [
        (each, f"its allocation ends in {spelt(round(_time_left(each)))}")
        for each in ending
        if enough or _time_left(each) <= bounds.grace
    ]


def _idle(here: list[Pilot], bounds: Bounds, now: float) -> list[tuple[Pilot, str]]:
    """Nodes to give back, the longest idle first; never below the least."""
    spare = max(0, len(here) - bounds.least)
    unused = sorted((each for each in here if each.idle is not None), key=lambda each: each.idle or 0.0)
    due = [each for each in unused if each.idle is not None and now - each.idle >= bounds.idle]
    return [
        (each, f"idle for {spelt(round(bounds.idle))}, given back to Slurm") for each in due[:spare]
    ]


def _surplus(coming: list[Pilot], surplus: int, bounds: Bounds, now: float) -> list[Pilot]:
    """Pilots that wait in Slurm's queue for a demand that is over, the youngest first."""
    waiting = [each for each in coming if not each.running and now - each.since >= bounds.idle]
    return sorted(waiting, key=lambda each: -each.job)[: max(0, surplus)]


def _emptied(pilot: Pilot) -> bool:
    """Whether the daemon has said, long enough after the node began to depart, that it has no task."""
    if pilot.leaving is None or pilot.unused is None:
        return False
    return pilot.unused - pilot.leaving >= EMPTY_FOR
