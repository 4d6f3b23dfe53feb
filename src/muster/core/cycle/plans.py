"""How the tasks of each job share its work: the planner's choice for a placement.

Answers are kept by what they depend on: model, batch and the shape of a placement, never names of
nodes, so that a thousand jobs ask a few dozen questions. All are dropped when something new is known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean
from types import MappingProxyType

from muster.model.cluster import Cluster
from muster.model.job import Job, Role
from muster.model.outlook import Outlook
from muster.model.placement import Placement, Slot
from muster.model.plan import ChosenPlan, Overlap, Plan, Sync
from muster.model.profile import CapturedShape, ModelProfile
from muster.model.view import JobState
from muster.perf.predict import Knowledge, Predictor
from muster.perf.shape import Shape, site_of, symmetry
from muster.planner.placed import SyncWay, numbered, price_of, ways

CLEARLY = 0.95
"""A way replaces the default one, or the one in force, only if its step takes less than this part: most
predictions are off by some per cent, and a change is not free."""

CHANGE_SECONDS = 1.0
"""s of training charged for another plan of the same tasks: connections are made beside the training,
the switch itself is a fraction of a step (`benchmarks/runtime_resize.py`)."""

GAIN = 1.01
"""Fewer servers are as good if a step takes at most this many times as long."""

DWELL = 20.0
"""Least s for which a plan of unchanged tasks stays, at first: some windows of measured steps. Each
change doubles it, so that no knowledge, however wrong or restless, makes a job change often."""
MOST_TURNS = 6
"""Changes that are counted: 20 minutes each from then on."""


@dataclass(frozen=True, slots=True)
class _Priced:
    way: SyncWay
    seconds: float
    """With what the job has measured."""


class Plans:
    """Plans on one cluster, with one state of knowledge."""

    def __init__(self, cluster: Cluster, knowledge: Knowledge | None = None) -> None:
        self.knowledge = knowledge
        self._predictor = Predictor(cluster, knowledge)
        self._ways: dict[tuple[object, ...], tuple[SyncWay, ...]] = {}
        self._profiles: dict[ModelProfile, ModelProfile] = {}
        self._models: dict[int, tuple[ModelProfile, ModelProfile]] = {}
        """By id, with the profile itself, so that no other gets that id."""
        self._symmetries: dict[tuple[str, tuple[int, ...]], tuple[str, ...]] = {}
        self._corrections: dict[tuple[str, Sync], float] = {}
        self._settled: dict[int, tuple[JobState, CapturedShape]] = {}
        """Running jobs that were looked at as they are, and keep their plan."""
        self.again = inf
        """When a job should be looked at that was not because its plan is new, in s."""

    def choose(self, job: Job, shape: CapturedShape, placement: Placement) -> ChosenPlan | None:
        """Return the plan for a placement; None if there is nothing to choose, or too little known."""
        if placement.devices < 2:
            return None
        return _chosen(self._priced(job, shape, placement))

    def servers(
        self, job: Job, shape: CapturedShape, workers: Placement, hosts: Sequence[Slot], had: int
    ) -> int | None:
        """Return how many of these servers a job should have; None: unknown.

        `hosts`: a server in each place, the best place first; `had`: those it has, which are the first.
        Another number must be clearly faster than this one.
        """
        plain = self.choose(job, shape, workers)
        if plain is None:
            return None
        steps = {0: plain.step}
        for count in range(1, len(hosts) + 1):
            served = self.choose(job, shape, workers.with_slots(hosts[:count]))
            if served is not None and served.sync is Sync.DEDICATED:  # else they would be idle
                steps[count] = served.step
        best = min(steps.values())
        fewest = min(count for count, step in steps.items() if step <= GAIN * best)
        today = steps.get(had)
        return fewest if today is None or steps[fewest] < CLEARLY * today else had

    def better(
        self, state: JobState, shape: CapturedShape, left: float, now: float
    ) -> ChosenPlan | None:
        """Return a plan that a running job should change to; None: it keeps its own.

        `left`: s that it will still run. The gain over them must exceed what the change costs.
        """
        seen = self._settled.get(state.number)
        if seen is not None and seen[0] is state and seen[1] is shape:
            return None
        if state.plan is not None and now < (due := state.planned + dwell(state.plan)):
            self.again = min(self.again, due)
            return None
        self._settled[state.number] = state, shape
        if state.placement is None or state.placement.devices < 2:
            return None
        return self._faster(state, state.placement, shape, left)

    def _faster(
        self, state: JobState, placement: Placement, shape: CapturedShape, left: float
    ) -> ChosenPlan | None:
        current = self._in_force(state, shape, placement)
        priced = self._priced(state.job, shape, placement, current)
        best = _chosen(priced)
        if best is None or best.same_way(state.plan):
            return None
        today = self._today(state.plan, shape, current, priced)
        if today is None:
            return best
        gain = (1 - best.step / today) * left
        turns = state.plan.turns + 1 if state.plan is not None else 0
        worth = best.step < CLEARLY * today and gain > CHANGE_SECONDS
        return replace(best, turns=turns) if worth else None

    def _in_force(
        self, state: JobState, shape: CapturedShape, placement: Placement
    ) -> dict[Sync, float]:
        """Return the s of a step of the plan in force as predicted now, from the models alone; empty if
        it is one of today's ways."""
        ways_now = self._ways_of(state.job, shape, placement)
        if state.plan is None or any(_told(way.plan).same_way(state.plan) for way in ways_now):
            return {}
        batch = state.job.batch or shape.batch
        plain = price_of(self._predictor, shape.profile, state.plan, batch, placement)
        return {} if plain is None else {state.plan.sync: plain}

    def _today(
        self,
        plan: ChosenPlan | None,
        shape: CapturedShape,
        current: Mapping[Sync, float],
        priced: list[_Priced],
    ) -> float | None:
        """Return s of a step of the plan in force: as measured, else as predicted now."""
        if plan is None:
            return None
        measured = dict(shape.measured).get(plan.sync)
        if measured is not None:
            return measured
        plain = {each.way.plan.sync: each.way.seconds for each in priced} | dict(current)
        factor = priced[0].seconds / priced[0].way.seconds
        return plain[plan.sync] * factor if plan.sync in plain else None

    def _priced(
        self,
        job: Job,
        shape: CapturedShape,
        placement: Placement,
        current: Mapping[Sync, float] = MappingProxyType({}),
    ) -> list[_Priced]:
        """Return the ways with their prices. What the job has measured of one way corrects the others
        too: most errors (speed of devices, other load) are common to all. What all jobs have measured
        tells how the ways differ. `current`: what is predicted of the plan that was measured, where
        that may have other owners than the way that would be chosen now."""
        found = self._ways_of(job, shape, placement)
        measured = dict(shape.measured)
        usual = {w.plan.sync: self._usual(shape.profile.name, w.plan.sync) for w in found}
        plain = {w.plan.sync: w.seconds for w in found} | dict(current)
        own = {sync: measured[sync] / plain[sync] for sync in usual if sync in measured}
        common = fmean(own[sync] / usual[sync] for sync in own) if own else 1.0
        return [
            _Priced(w, w.seconds * own.get(w.plan.sync, common * usual[w.plan.sync])) for w in found
        ]

    def _usual(self, model: str, sync: Sync) -> float:
        """Return how many times as long as predicted steps that synchronise so take."""
        if self.knowledge is None or not self.knowledge.steps.observed:
            return 1.0
        key = (model, sync)
        if key not in self._corrections:
            steps = self.knowledge.steps
            self._corrections[key] = steps.correction("", model, sync, Overlap.FULL).factor
        return self._corrections[key]

    def _ways_of(self, job: Job, shape: CapturedShape, placement: Placement) -> tuple[SyncWay, ...]:
        program, batch, profile = job.program, job.batch or shape.batch, self._model(shape.profile)
        where = self._class_of(site_of(self._predictor.cluster, numbered(placement)).shape)
        key = (id(profile), batch, program.sync, program.owners, where)
        if key not in self._ways:
            self._ways[key] = ways(self._predictor, job, profile, batch, placement)
        return self._ways[key]

    def _model(self, profile: ModelProfile) -> ModelProfile:
        """Return one object for all equal profiles: comparing thousands of tensors takes its time."""
        known = self._models.get(id(profile))
        if known is None:
            same = self._profiles.setdefault(profile, profile)
            known = self._models[id(profile)] = profile, same
        return known[1]

    def _class_of(self, shape: Shape) -> tuple[object, ...]:
        """Return what is equal for placements that differ by which of equal devices they have."""
        found: list[object] = []
        for host in shape:
            key = (host.configuration, tuple(seat.bits for seat in host.seats))
            if key not in self._symmetries:
                layers = self._predictor.cluster.configurations[host.configuration].layers
                self._symmetries[key] = symmetry(layers, key[1])
            tasks = tuple((s.role, s.task, s.millicores, s.memory) for s in host.seats)
            found.append((host.configuration, host.rack, host.domain, tasks, self._symmetries[key]))
        return tuple(found)


def _chosen(priced: list[_Priced]) -> ChosenPlan | None:
    """Return the first way, unless another is clearly faster, with the next best as runner-up."""
    if not priced:
        return None
    best = min(priced, key=lambda each: each.seconds)
    best = best if best.seconds < CLEARLY * priced[0].seconds else priced[0]
    others = [each for each in priced if each is not best]
    other = min(others, key=lambda each: each.seconds, default=None)
    return replace(
        _told(best.way.plan),
        step=best.seconds,
        runner_up=other.way.plan.sync if other else None,
        runner_up_step=other.seconds if other else None,
        plain=best.way.seconds,
    )


def _told(plan: Plan) -> ChosenPlan:
    """Return a plan as jobs are told, without a price."""
    owners = _rounded(plan.owners) if plan.sync is not Sync.RING else ()
    return ChosenPlan(plan.sync, 0.0, plan.batch if _unequal(plan.batch) else (), owners)


def dwell(plan: ChosenPlan) -> float:
    """Return s for which a plan stays at least: each change on the same tasks doubles them."""
    return DWELL * 2.0 ** min(plan.turns, MOST_TURNS)


def seconds_left(state: JobState, outlook: Outlook | None, now: float) -> float:
    """Return how long a running job will still run, in s; unknown: as long again as it has run."""
    placement = state.placement
    if outlook is not None and outlook.here:
        return outlook.left / outlook.here
    if outlook is not None and placement is not None:
        types = state.job.device_types or ("",)
        rate = outlook.speed.rate(types[0], placement.count(Role.WORKER))
        if rate > 0:
            return outlook.left / rate
    return max(CHANGE_SECONDS, now - (state.started if state.started is not None else now))


def _rounded(owners: tuple[float, ...]) -> tuple[float, ...]:
    """Round shares, so that equal ones are equal and next to nothing is nothing."""
    rough = [round(share, 3) for share in owners]
    rough[rough.index(max(rough))] += 1 - sum(rough)
    return tuple(round(share, 6) for share in rough)


def _unequal(parts: tuple[int, ...]) -> bool:
    """Whether the parts differ by more than rounding."""
    return bool(parts) and max(parts) - min(parts) > 1
