"""Tetris: pack by several resources at once, favouring jobs with little work left. Non-preemptive.

Source: Grandl et al., SIGCOMM 2014, "Multi-resource packing for cluster schedulers".

Rule: a task fits best on the node where what it needs points the same way as what is free,

    alignment a = sum over resources r of  need[r] / node[r] * free[r] / node[r]         (no unit)

(devices, cores, memory; a gang's is the mean over its tasks, each on its best node). Jobs with less
work left, p = remaining time * sum over r of need[r] / cluster[r] (s), go first:

    score = a - eps * p,   eps = mean of a / mean of p                                   (1/s)

over the jobs that fit. The highest score is started until nothing fits. Running jobs keep what they
have. Once every gang is placed the rest goes worker by worker, by the same score, to jobs that can use
more: they are the paper's pending tasks. Without an outlook the time left is what the duration leaves;
jobs without either count as longest.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf

from muster.model.cluster import Cluster, NodeState
from muster.model.job import Need
from muster.model.pool import Entitlements
from muster.model.topology import ConfigurationSet
from muster.model.view import JobState, Phase, View
from muster.planner.counts import plan_for
from muster.policy.base import Allocation, Shares, exactly
from muster.policy.merits import by_time_left
from muster.policy.room import Room, holds, type_held
from muster.policy.unknown import remaining


@dataclass(frozen=True, slots=True)
class Tetris:
    """Best aligned gangs, weighed against their work left; then growth."""

    name: str = "tetris"
    informed: bool = True

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate to jobs that start or grow; all others keep what they have."""
        packing = _Packing(view, entitlements, now)
        waiting = [state for state in packing.room.movable if state.phase is Phase.WAITING]
        running = [state for state in packing.room.movable if state.phase is Phase.RUNNING]
        left_out = packing.fill({state.number: 0 for state in waiting})
        if not left_out:
            packing.fill({s.number: holds(s) for s in running} | packing.given)
        merits = partial(by_time_left, view, packing.room, view.jobs.values(), now)
        return Shares(tuple(packing.answer()), memory, steers=True, merits=merits)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is free on a node: nodes of equal shape are looked at once."""

    configuration: str
    devices: int
    millicores: int
    memory: int

    def less(self, need: Need) -> "_Shape":
        return _Shape(
            self.configuration,
            self.devices - need.devices,
            self.millicores - need.millicores,
            self.memory - need.memory,
        )

    def holds(self, need: Need) -> bool:
        enough = self.millicores >= need.millicores and self.memory >= need.memory
        return enough and self.devices >= need.devices


_Tasks = tuple[tuple[Need, int], ...]
"""Needs of tasks, and their counts."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A job's next step, on devices of one type."""

    state: JobState
    workers: int
    more: int
    """Workers that it does not have yet."""
    device_type: str | None
    tasks: _Tasks
    work: float
    """p, in s; inf: unknown."""


@dataclass(frozen=True, slots=True)
class _Fit:
    """A step that fits: its alignment, and what is free afterwards."""

    step: _Step
    shapes: Counter[_Shape]
    alignment: float


class _Packing:
    """What is free on the nodes, and what has been given so far."""

    def __init__(self, view: View, entitlements: Entitlements, now: float) -> None:
        self.room = Room(view, entitlements)
        self.given: dict[int, int] = {}
        """Workers of the jobs that start or grow."""
        self._types: dict[int, str | None] = {}
        self._view = view
        self._now = now
        self._shapes = _shapes(view.cluster)
        self._laid: dict[tuple[_Tasks, str | None], tuple[Counter[_Shape], float] | None] = {}
        """Results on the current shapes, shared by equal jobs."""
        self._whole = _whole(view.cluster)
        for state in self.room.movable:  # they keep what they have
            held = type_held(view, state)
            if held is not None:
                self.room.take(state.job, held, holds(state))

    def fill(self, workers: Mapping[int, int]) -> set[int]:
        """Give the best scores their next step until nothing fits; return the jobs left out.

        `workers` is what they have; a job with none gets its gang and is then done.
        """
        steps = {job: self._steps(job, count) for job, count in workers.items()}
        left_out: set[int] = set()
        while steps:
            # What does not fit now never will: nothing is given back.
            fits = {job: fit for job, each in steps.items() if (fit := self._fit(each)) is not None}
            left_out |= steps.keys() - fits.keys()
            if not fits:
                break
            best = _best(list(fits.values())).step
            self._take(fits[best.state.number])
            steps = {job: steps[job] for job in fits}
            if workers[best.state.number]:
                steps[best.state.number] = self._steps(best.state.number, best.workers)
            else:
                del steps[best.state.number]
        return left_out

    def answer(self) -> Iterable[Allocation]:
        """Yield jobs that start or grow, in the order of choice."""
        for job, workers in self.given.items():
            several = len(self.room.types(self._view.jobs[job].job)) > 1
            yield exactly(job, workers, device_type=self._types[job] if several else None)

    def _take(self, fit: _Fit) -> None:
        step = fit.step
        self.given[step.state.number] = step.workers
        self._types[step.state.number] = step.device_type
        self._shapes = fit.shapes
        self._laid.clear()
        if step.device_type is not None:
            self.room.take(step.state.job, step.device_type, step.more)

    def _steps(self, job: int, workers: int) -> tuple[_Step, ...]:
        """Return a job's possible next steps, by device type in order of preference."""
        state = self._view.jobs[job]
        spec = state.job.workers
        following = workers + 1 if workers else spec.gang
        if following > spec.most:
            return ()
        types = self._choices(state, workers)
        useful = (each for each in types if self._faster(state, each, workers, following))
        tasks = _tasks(state, workers, following)
        return tuple(
            _Step(state, following, following - workers, each, tasks, self._work(state, each))
            for each in useful
        )

    def _fit(self, steps: Iterable[_Step]) -> _Fit | None:
        """Return the first step that fits."""
        for step in steps:
            device_type = step.device_type
            if device_type and self.room.most(step.state.job, device_type) < step.more:
                continue
            asked = (step.tasks, device_type)
            if asked not in self._laid:
                self._laid[asked] = self._lay(*asked)
            if (laid := self._laid[asked]) is not None:
                return _Fit(step, *laid)
        return None

    def _choices(self, state: JobState, workers: int) -> tuple[str | None, ...]:
        if not state.job.workers.need.devices:
            return (None,)
        if not workers:
            return self.room.types(state.job)
        return (self._types.get(state.number) or type_held(self._view, state),)

    def _faster(self, state: JobState, device_type: str | None, workers: int, following: int) -> bool:
        """Whether the step is believed to make it faster, or run at all."""
        outlook = self._view.outlooks.get(state.number)
        if outlook is None:
            return True
        rate = outlook.speed.rate
        return rate(device_type or "", following) > (rate(device_type or "", workers) if workers else 0)

    def _lay(self, tasks: _Tasks, device_type: str | None) -> tuple[Counter[_Shape], float] | None:
        """Lay each task on its best aligned node; return what is left free and the mean alignment."""
        shapes, alignments = Counter(self._shapes), []
        for need in (need for need, count in tasks for _ in range(count)):
            found = [
                (_alignment(need, shape, kind), -place, shape)
                for place, shape in enumerate(shapes)
                if shape.holds(need)
                and (kind := self._view.cluster.configurations[shape.configuration])
                and (not need.devices or kind.device_type == device_type)
            ]
            if not found:
                return None
            alignment, _, shape = max(found, key=lambda each: each[:2])
            alignments.append(alignment)
            shapes[shape] -= 1
            if not shapes[shape]:
                del shapes[shape]
            shapes[shape.less(need)] += 1
        return shapes, sum(alignments) / len(alignments)

    def _work(self, state: JobState, device_type: str | None) -> float:
        """Return p: its gang's part of the whole cluster, times the seconds it has left."""
        plan = plan_for(state.job, state.job.workers.gang)
        wholes = (self._whole.devices, self._whole.millicores, self._whole.memory)
        needs = (plan.devices, plan.millicores, plan.memory)
        part = sum(need / whole for need, whole in zip(needs, wholes, strict=True) if whole)
        return part * remaining(self._view, state, (device_type or "",), self._now)


def _best(fits: list[_Fit]) -> _Fit:
    """Return the highest score among the highest priority; ties: the oldest."""
    known = [fit.step.work for fit in fits if fit.step.work < inf]
    longest = max(known, default=0.0)
    works = [min(fit.step.work, longest) for fit in fits]
    mean = sum(works) / len(works)
    eps = sum(fit.alignment for fit in fits) / len(fits) / mean if mean else 0.0
    scores = [fit.alignment - eps * work for fit, work in zip(fits, works, strict=True)]

    def order(i: int) -> tuple[int, float, float, int]:
        state = fits[i].step.state
        return (-state.job.priority, -scores[i], state.submitted, state.number)

    return fits[min(range(len(fits)), key=order)]


def _alignment(need: Need, shape: _Shape, kind: ConfigurationSet) -> float:
    """Return the sum of need times free, each as a part of the node."""
    parts = (
        (need.devices, shape.devices, kind.devices),
        (need.millicores, shape.millicores, kind.millicores),
        (need.memory, shape.memory, kind.memory),
    )
    return sum(wants / whole * free / whole for wants, free, whole in parts if whole)


def _tasks(state: JobState, workers: int, following: int) -> _Tasks:
    """Return the tasks added by this step, servers included."""
    before = plan_for(state.job, workers) if workers else None
    parts = plan_for(state.job, following).parts
    return tuple((p.need, p.count - (before.count(p.role) if before else 0)) for p in parts)


def _shapes(cluster: Cluster) -> Counter[_Shape]:
    up = (node for node in cluster.nodes if node.state is NodeState.UP)
    return Counter(
        _Shape(node.configuration, node.free.bit_count(), node.millicores, node.memory) for node in up
    )


def _whole(cluster: Cluster) -> Need:
    """Return the total of nodes that are up."""
    kinds = [cluster.configuration_of(n) for n in cluster.nodes if n.state is NodeState.UP]
    return Need(
        devices=sum(kind.devices for kind in kinds),
        millicores=sum(kind.millicores for kind in kinds),
        memory=sum(kind.memory for kind in kinds),
    )


POLICIES = (Tetris(),)
