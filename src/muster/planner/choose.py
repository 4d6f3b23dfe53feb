"""The best plan for a job (Dike, seed 000): generate, price, choose; prune by bounds.

Best-first search: layouts of workers are queued by their bound; the top one is expanded into families
of plans with bounds of their own, rough then fine; a family on top is priced. When the top bound is not
above the best price so far, the search ends.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush
from itertools import count

from muster.model.job import Job, Role
from muster.model.plan import Sync
from muster.model.profile import ModelProfile
from muster.perf.estimate import Estimate, Unknown, WhyUnknown
from muster.perf.overlap import pieces
from muster.perf.predict import Predictor
from muster.planner.bounds import StepBounds
from muster.planner.candidates import Family, PlacedPlan, PlacedWorkers, Workshop
from muster.planner.layout import Layout, kinds_of, layouts

GAIN = 1.01
"""A better plan or more servers must gain one per cent: less is noise."""


class Aim(StrEnum):
    """What the best plan is best at."""

    THROUGHPUT = "throughput"
    PER_DEVICE = "per_device"


@dataclass(frozen=True, slots=True)
class Priced:
    """A candidate with its price: the step in s, samples/s, and the figure to compare."""

    candidate: PlacedPlan
    step: Estimate
    samples: float
    worth: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """The best plan, the best that synchronises otherwise, and the numbers of candidates priced and
    layouts seen."""

    best: Priced
    runner_up: Priced | None
    priced: int
    layouts: int


class Planner:
    """Plans for jobs on one cluster, priced by one predictor."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor

    def choose(
        self,
        job: Job,
        configurations: Iterable[str],
        devices: int,
        aim: Aim = Aim.THROUGHPUT,
    ) -> Chosen | Unknown:
        """Return the best plan with at most `devices` on free nodes of these configuration sets."""
        if job.model is None:
            return Unknown(WhyUnknown.NO_PROFILE, f"job {job.name} names no model to plan for")
        if not job.workers.need.devices:
            return Unknown(
                WhyUnknown.BAD_PLAN, f"the workers of {job.name} have no devices to plan for"
            )
        return _Search(self._predictor, job, job.model, aim).run(tuple(configurations), devices)


Waiting = tuple[float, int, Layout, Family | None, float, bool]
"""Minus the bound on its worth, a tie-breaker, the entry, the least seconds of computing there, and
whether the bound is the fine one."""


class _Search:
    """One search: the queue, the best so far of each way to synchronise, and the counts."""

    def __init__(self, predictor: Predictor, job: Job, profile: ModelProfile, aim: Aim) -> None:
        self._predictor = predictor
        self._job = job
        self._profile = profile
        self._aim = aim
        self._least = job.workers.gang * job.workers.need.devices
        self._workshop = Workshop(predictor, job, profile)
        self._bounds = StepBounds(self._workshop, pieces(profile))
        self._waiting: list[Waiting] = []
        self._number = count()
        self._best: dict[Sync, Priced] = {}
        self._layouts: dict[Sync, Layout] = {}
        self._priced = 0
        self._refused: Unknown | None = None

    def run(self, configurations: tuple[str, ...], devices: int) -> Chosen | Unknown:
        kinds = kinds_of(self._predictor.cluster, configurations)
        most = min(devices, self._job.workers.most * self._job.workers.need.devices)
        found = 0
        for layout in layouts(kinds, self._least, most):
            found += 1
            self._wait(layout)
        while self._waiting and -self._waiting[0][0] > GAIN * self._leading():
            self._advance()
        if not self._best:
            nothing = f"no free devices: {self._least} to {devices} are needed"
            return self._refused or Unknown(WhyUnknown.BAD_PLAN, nothing)
        return self._choice(found)

    def _wait(self, layout: Layout) -> None:
        """Queue a layout at the bound of its computing alone."""
        compute = self._bounds.compute(layout, self._batch(layout), updates=False)
        if isinstance(compute, Unknown):
            self._refused = compute
        elif not self._bounds.superfluous(layout, self._batch(layout), compute, self._least):
            self._push(layout, None, compute, compute)

    def _push(
        self, layout: Layout, family: Family | None, compute: float, step: float, *, fine: bool = False
    ) -> None:
        worth = self._worth(self._batch(layout) / step, layout.devices)
        heappush(self._waiting, (-worth, next(self._number), layout, family, compute, fine))

    def _advance(self) -> None:
        """Refine the bound of the top entry; if it is fine, expand the layout or price the family."""
        _, _, layout, family, compute, fine = heappop(self._waiting)
        if not fine:
            bounds = self._bounds
            if family is None:
                step = bounds.least(layout, compute)
            else:
                step = bounds.fine(layout, family, compute)
            self._push(layout, family, compute, step, fine=True)
        elif family is None:
            self._open(layout, compute)
        else:
            self._price_family(layout, family)

    def _open(self, layout: Layout, compute: float) -> None:
        """Queue the families of plans on a layout at their rough bounds."""
        updating = self._bounds.compute(layout, self._batch(layout), updates=True)
        for family in families(layout, self._job):
            own = updating if family.updates else compute
            if isinstance(own, Unknown):
                self._refused = own
            else:
                self._push(layout, family, own, self._bounds.rough(layout, family, own))

    def _price_family(self, layout: Layout, family: Family) -> None:
        placed = self._workshop.workers(layout, self._batch(layout), family)
        if placed is None:
            return
        if family.sync is Sync.DEDICATED:
            self._keep(self._served(placed, apart=family.apart), layout)
        elif family.sync is Sync.SHARDED:
            self._keep(self._price(self._workshop.sharded(placed)), layout)
        else:
            self._keep(self._price(self._workshop.plan(placed, family.sync)), layout)

    def _served(self, placed: PlacedWorkers, *, apart: bool) -> Priced | None:
        """Return the best plan with servers beside or apart from these workers."""
        nodes = self._workshop.server_nodes(placed, apart=apart)
        least, most = self._workshop.server_range(nodes)
        if not least <= most:
            return None
        priced: dict[int, Priced | None] = {}

        def speed(servers: int) -> float:
            if servers not in priced:
                priced[servers] = self._price(self._workshop.dedicated(placed, nodes, servers))
            found = priced[servers]
            return found.samples if found is not None else 0.0

        enough = min(max(self._workshop.enough_servers(placed, nodes), least), most)
        first = speed(enough)
        if (
            self._worth(first, sum(slot.bits.bit_count() for slot in placed.slots)) * GAIN
            < self._leading()
        ):
            return priced[enough]
        return priced[fewest(enough, least, most, speed)]

    def _price(self, candidate: PlacedPlan) -> Priced | None:
        """Price a candidate; None if it cannot run."""
        self._priced += 1
        plan = candidate.plan
        step = self._predictor.step_time(self._profile, plan, candidate.placement, job=self._job.name)
        if isinstance(step, Unknown):
            self._refused = step
            return None
        samples = sum(plan.batch) / step.mean
        return Priced(candidate, step, samples, self._worth(samples, plan.devices))

    def _keep(self, priced: Priced | None, layout: Layout) -> None:
        """Keep a plan if it is the best of its way to synchronise."""
        if priced is not None:
            sync = priced.candidate.plan.sync
            before = self._best.get(sync)
            if before is None or priced.worth > before.worth:
                self._best[sync], self._layouts[sync] = priced, layout

    def _batch(self, layout: Layout) -> int:
        """Return the samples of one step: the user's, else the profile's for each device."""
        return self._job.batch or self._profile.batch * layout.devices

    def _worth(self, samples: float, devices: int) -> float:
        return samples / max(1, devices) if self._aim is Aim.PER_DEVICE else samples

    def _leading(self) -> float:
        return max((priced.worth for priced in self._best.values()), default=0.0)

    def _choice(self, found: int) -> Chosen:
        """Return the best, and the best of the other ways to synchronise."""
        best = max(self._best.values(), key=lambda priced: priced.worth)
        chosen = best.candidate.plan.sync
        layout = self._layouts[chosen]
        # The search has priced other ways only where they might be better.
        for family in families(layout, self._job):
            if family.sync is not chosen:
                self._price_family(layout, family)
        others = [priced for sync, priced in self._best.items() if sync is not chosen]
        runner_up = max(others, key=lambda priced: priced.worth, default=None)
        return Chosen(best, runner_up, self._priced, found)


def fewest(start: int, least: int, most: int, speed: Callable[[int], float]) -> int:
    """Return the fewest servers that do as well as any: double while it helps, then bisect."""
    few, reached = start, speed(start)
    while few < most:
        more = min(2 * few, most)
        then = speed(more)
        if then < GAIN * reached:
            break
        few, reached = more, then
    low = least - 1
    while few - low > 1:
        middle = (low + few) // 2
        low, few = (low, middle) if speed(middle) * GAIN >= reached else (middle, few)
    return few


def families(layout: Layout, job: Job) -> Iterator[Family]:
    """Yield the families of plans that make sense on a layout."""
    several = any(group.devices > 1 for group in layout.groups)
    if layout.devices == 1:
        yield Family(Sync.RING)
        return
    served = any(spec.role is Role.SERVER for spec in job.roles)
    wholes = (False, True) if several and job.workers.need.devices == 1 else (False,)
    if not served:
        yield Family(Sync.RING)
        if several and layout.nodes > 1:
            yield Family(Sync.HIERARCHICAL)
        for whole in wholes:
            if layout.nodes > 1 or not whole:
                yield Family(Sync.SHARDED, whole)
    for whole in wholes:
        yield Family(Sync.DEDICATED, whole)
        yield Family(Sync.DEDICATED, whole, apart=True)
        if layout.dealt != layout.racks:
            yield Family(Sync.DEDICATED, whole, apart=True, dealt=True)
