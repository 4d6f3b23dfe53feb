"""A policy that says what a test wants, and short ways to run it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from muster.model.cluster import Cluster
from muster.model.job import Job
from muster.model.pool import Entitlements, PoolTree, single_pool
from muster.model.view import View
from muster.policy.base import Policy, Shares, exactly
from muster.sim.engine import Engine, Frame, Setting
from muster.sim.executor import Pauses
from muster.sim.result import JobResult, Result
from muster.sim.scenario.run import simulate
from muster.sim.truth import Arrival, Truth
from muster.sim.worlds.power import PowerLaw
from tests.builders import cluster, node_set
from tests.numbers import name_of, number

FREE = Pauses(start=0.0, resize=0.0, migrate=0.0, release=0.0)
"""Nothing costs anything."""


@dataclass(frozen=True, slots=True)
class Script:
    """From each moment on, this many workers for each job named; the others are left as they are."""

    acts: tuple[tuple[float, Mapping[str, Any]], ...]
    name: str = "script"
    informed: bool = False
    asks: bool = False
    asked: list[float] = field(default_factory=list, compare=False)

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        self.asked.append(now)
        begun = [act for at, act in self.acts if at <= now]
        wanted = begun[-1] if begun else {}
        again = next((at for at, _ in self.acts if at > now), inf)
        found = tuple(_said(job, what) for job, what in wanted.items() if number(job) in view.jobs)
        return Shares(found, memory, steers=True, again=again, asks=self.asks)


def _said(job: str, what: Any) -> Any:
    return exactly(number(job), **what) if isinstance(what, dict) else exactly(number(job), what)


def script(*acts: tuple[float, Mapping[str, Any]], asks: bool = False) -> Script:
    """Acts in order of time; `asks`: whether the policy asks for every cycle that it needs."""
    return Script(acts, asks=asks)


def arrival(asked: Job, work: float = 100.0, *, at: float = 0.0, truth: Truth | None = None) -> Arrival:
    """A job that does `work` at one unit per s and worker."""
    return Arrival(at, asked, truth or PowerLaw(work))


def setting(
    policy: Policy, on: Cluster | None = None, pools: PoolTree | None = None, **more: Any
) -> Setting:
    """Two nodes of four devices, one pool, changes that cost nothing; unless told otherwise."""
    on = on or cluster(2, node_set(devices=4))
    whole = on.devices_by_type()
    made = Setting(on, pools or single_pool(whole), policy, pauses=FREE)
    return replace(made, **more)


def run(made: Setting, *arrivals: Arrival, stints: bool = True) -> Result:
    """Run to the end."""
    return simulate(made, arrivals, stints=stints)


def frames(made: Setting, *arrivals: Arrival) -> list[Frame]:
    """All cycles."""
    return list(Engine(made, arrivals).frames())


def of(result: Result, name: str) -> JobResult:
    """One job's record."""
    return next(each for each in result.records if each.name == name)


def kinds(made: Sequence[Frame]) -> list[tuple[float, str, str]]:
    """When, who, what: every decision but waiting."""
    return [
        (frame.now, name_of(decision.job), str(decision.kind))
        for frame in made
        for decision in frame.decided.decisions
        if decision.kind != "wait"
    ]
