"""Outlooks of live jobs, learnt from the reports of jobs of the same application.

A job without an application learns from itself alone. Work left is counted in predicted seconds on one
device of one type, the first by name:

    left = sum over the progress left of (s of a step there) / (work of a step), on one device    [s]
    rate = that over the same sum for k devices, packed on as few nodes as possible               [s/s]

With a free batch each stretch of progress uses its best batch. Speeds are predicted for up to twice as
many devices as any job of the application has had (as Pollux explores), at least for one node, and are
level beyond, unless the shape of its model foretells them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import hypot, inf
from typing import Any, TypeVar

import numpy as np

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.alike import AlikeLeft, Scatter
from muster.perf.learnt.batches import Array, BatchRange, gain
from muster.perf.learnt.changes import ChangeCosts, ChangeKind
from muster.perf.learnt.costs import Costs, compared
from muster.perf.learnt.declared import Declarations
from muster.perf.learnt.grid import BatchGrid, grid_of, hope
from muster.perf.learnt.held import Held, packed
from muster.perf.learnt.job_kind import KEPT, UNKNOWN_BATCH, JobKind
from muster.perf.learnt.last_steps import LastSteps
from muster.perf.learnt.lengths import FIRST, Left, Lengths, agreed, octave_left
from muster.perf.learnt.live_kinds import LiveKinds
from muster.perf.learnt.priors import prior_from
from muster.perf.learnt.ratios import SPREAD, ratio, slower
from muster.perf.learnt.step_report import StepReport
from muster.perf.learnt.steps import PlacedSplit, StepTimes
from muster.perf.learnt.tables import ByType
from muster.perf.learnt.told import Told
from muster.perf.learnt.way import stretch
from muster.perf.mixture import mixed_rate
from muster.perf.speed.fitted import Prior
from muster.perf.speed.foresight import Foresight

T = TypeVar("T")
Batches = tuple[int | None, ...]
"""Global batches to choose from; None: the job's own."""

GROWTH = 2
"""Speeds are predicted up to this many times the most devices seen: Pollux' limit."""


class Learner:
    """Learns from reports, and predicts."""

    def __init__(
        self,
        node_devices: Mapping[str, int],
        ranges: Mapping[str, BatchRange] | None = None,
        *,
        free_batch: bool = False,
        steady: float = 0.0,
    ) -> None:
        """Devices on a node by type; limits of batches by application; whether batches may change, and
        for which relative gain at least."""
        self._steady = steady
        self._node_devices = dict(node_devices)
        self._ranges = dict(ranges or {})
        self._free = free_batch
        self._kinds: dict[str, JobKind] = {}
        self._all = Lengths()
        """All ended jobs, in s on one device."""
        self._declarations = Declarations()
        self._scatter = Scatter()
        self._own = LastSteps()
        self._changes = ChangeCosts()
        self._memo: dict[tuple[object, ...], tuple[object, Any]] = {}
        """Answers with the state they were computed from: valid while it is the same."""
        self._told: dict[int, Told] = {}
        """The last outlook of each job."""
        self._live = LiveKinds()
        self._heard = self._ended = 0
        """Count reports of all jobs, and ends."""

    def follow(self, node_devices: Mapping[str, int]) -> None:
        """Predict for other nodes from now on: devices on a node by type."""
        if self._node_devices != node_devices:
            self._node_devices = dict(node_devices)
            self._forget_answers()

    def watch(self, job: Job, held: Held, report: StepReport, done: float) -> None:
        """Take in a report of a job that has done this much work."""
        kind = self._kind(job)
        kind.heard, self._heard = kind.heard + 1, self._heard + 1
        kind.reached = max(kind.reached, done)
        split = kind.split(held.batch or job.batch, held.workers)
        kind.batches.add(held, split.batch, report.step / report.slowed)
        if held.beside:
            self._learn_mixing(job, kind, held, report)
        else:
            if held.device_type not in kind.steps:
                least = kind.smallest(self._batches(job, kind), job.workers.most)
                prior = replace(self._unseen(kind, held.device_type), smallest=least)
                kind.steps[held.device_type] = StepTimes(prior)
            steps = kind.steps[held.device_type]
            # Elsewhere it would have other neighbours: the curve is of a job alone, only `here` is not.
            steps.add(PlacedSplit(held.shape, split), report.step / report.slowed, report.sync)
        if kind.range is not None and report.noise is not None and report.noise > 0:
            kind.noise.add(done, report.noise)
        elif report.gain > 0:
            kind.worth.add(done, report.gain / split.batch)
        self._own.add(job.number, held, report.step)
        if job.work is not None and job.duration is not None:
            part = self.part_of_declared(job, job.work)
            if part is not None:
                self._declarations.foresee(job.number, job.user, part)

    def _learn_mixing(self, job: Job, kind: JobKind, held: Held, report: StepReport) -> None:
        """Take in a step on devices of several types: curves are of one type each."""
        at = stretch(kind.reached)
        speed = self._speed(job, kind, at, at)
        measured = self._measured(job, kind, held, speed, report.step / report.slowed)
        predicted = mixed_rate(speed, held.by_type)
        if measured > 0.0 and predicted > 0.0:
            kind.mixing.add(0.0, measured / predicted)

    def foresee(self, job: Job, told: Mapping[str, Foresight], at_once: int = 0) -> None:
        """Take in what the shape of a job's model foretells by device type; its steps correct that.

        `at_once`: most samples that it computes at once on a device; 0: all of its share."""
        kind = self._kind(job)
        if told and told is not kind.foreseen:
            kind.foreseen, kind.heard = told, kind.heard + 1
        if kind.at_once != at_once:
            kind.at_once = at_once
            self._forget_answers()

    def has_seen(self, job: Job, held: Held) -> bool:
        """Whether a job has reported from where it is."""
        own = self._own.get(job.number)
        return own is not None and own[0] == held

    def paused(self, job: Job, change: ChangeKind, seconds: float) -> None:
        """Take in the s without progress that a change has cost a job."""
        self._changes.add(job.number, self._kind(job).name, change, seconds)

    def ended(self, job: Job, work: float, part: float | None = None) -> None:
        """Take in the length of a job that has ended; `part`: what it took of its declared duration,
        if that is known otherwise than by its steps."""
        kind = self._kind(job)
        self.forget(job)
        self._ended += 1
        part = self.part_of_declared(job, work) if part is None else part
        if part is not None:
            self._declarations.add(job.user, part)
        if kind.steps:
            self._all.add(self._cost(job, kind, self._types(job)[0]).alone(0.0, work))
        before = tuple(kind.lengths.sorted)
        kind.lengths.add(work)
        self._scatter.add(before, kind.lengths.sorted)
        if job.application is None:
            del self._kinds[kind.name]

    def part_of_declared(self, job: Job, work: float) -> float | None:
        """Return the part of its user's duration that a job of this much work takes; None: unknown."""
        kind = self._kind(job)
        declared = self._declared(job, kind, stretch(work)) if kind.steps else 0.0
        if declared <= 0.0 or work <= 0.0:
            return None
        return self._cost(job, kind, self._types(job)[0]).alone(0.0, work) / declared

    def usual_part(self, user: str) -> float:
        """Return what this user's jobs usually take of their declared durations."""
        return self._declarations.usual(user)

    def forget(self, job: Job) -> None:
        """Drop a job that did not reach its end: its length says nothing."""
        self._own.pop(job.number, None)
        self._told.pop(job.number, None)
        self._live.drop(job.number)
        self._declarations.forget(job.number)
        self._changes.forget(job.number)

    def outlook(self, job: Job, held: Held | None, done: float, ahead: Left | None = None) -> Outlook:
        """Return the outlook of a live job; `ahead`: work left by what only this job shows."""
        number = job.number  # hot path: every cycle asks this of every job
        told = self._told.get(number)
        kind = told.kind if told is not None and told.job is job else self._kind(job)
        tells = self._live.note(kind, job, done)
        belief = self._belief(kind)
        if told is None or not told.holds_for(job, held, belief):
            told = self._told[number] = self._tell(job, kind, held, belief)
        resize, start = self._changes.all(number, kind.name)
        own = self._own.get(number)
        said = job.work is not None or ahead is not None
        given = done, ahead, self._lengths_heard(job, kind), resize, start, own, tells
        if told.outlook is not None and given == told.given:
            return told.outlook
        end, left = self._left(job, kind, told, done, ahead)
        at = stretch(done)
        stretches = at, at if end == done else stretch(end)
        if told.steady is None or stretches != told.stretches or own is not told.own:
            speed = self._speed(job, kind, *stretches)
            told.here, told.own = self._here(job, kind, held, speed), own
            told.stretches = stretches
            told.steady = self._steadied(job, kind, held, speed, end)
        known = Outlook(
            left.middle,
            told.steady,
            hypot(left.spread, told.spread),
            told.here,
            resize,
            start,
            untried=told.untried,
            mixing=told.mixing,
            told=said,
            tells=1 if said else tells,
            timed=told.timed or not said or job.duration is not None,
        )
        told.given, told.outlook = given, known
        return known

    def _tell(self, job: Job, kind: JobKind, held: Held | None, belief: int) -> Told:
        """Return what holds of a job while what is believed of its application is the same."""
        types = self._types(job)
        costs = self._cost(job, kind, types[0])
        spread = min(self._spread(job, kind, each) for each in types)
        untried = tuple(each for each in types if each not in kind.steps)
        mixing = kind.mixing.values()[0] if kind.mixing else 1.0
        timed = self._is_timed(kind, types)
        return Told(kind, job, held, belief, costs, spread, untried, mixing, timed)

    def _is_timed(self, kind: JobKind, types: Sequence[str]) -> bool:
        """Whether steps on these types were measured, or a maker's rates foretell how long they are."""
        told = kind.foreseen
        return bool(kind.steps) or all(
            base in told and told[base].rated for base in (self._base(kind, each) for each in types)
        )

    def _steadied(
        self, job: Job, kind: JobKind, held: Held | None, speed: ByType, done: float
    ) -> ByType:
        """Keep the batch that a job has if another gains little."""
        if held is None or not self._steady or not kind.noise:
            return speed
        best = speed.batch(held.device_type, held.workers)
        if best is None:
            return speed
        now = held.batch or job.batch or best
        least = self._least(job, kind)
        rates = self._rates(kind, held.device_type, (now, best), (held.workers,), least)
        column = rates[:, 0, min(stretch(done), rates.shape[2] - 1)]
        stays = bool(column[0] * (1 + self._steady) >= column[1])
        return speed.with_batch(held.device_type, held.workers, now) if stays else speed

    def _left(
        self, job: Job, kind: JobKind, told: Told, done: float, ahead: Left | None
    ) -> tuple[float, Left]:
        """Return the work at a job's end, and the s on one device until then.

        Its own total comes first, then what only this job shows, similar jobs that have ended and its
        declared duration, each weighing as much as it is certain, and at last jobs of any kind. A few
        similar jobs do not outweigh the user.
        """
        costs = told.costs
        if job.work is not None:
            end = max(job.work, done)
            return end, self._of_total(job, kind, told, done, end)
        work = ahead
        if kind.tells_lengths(job.duration is not None):
            alike = self._alike(kind).left(done)
            work = alike if ahead is None else agreed(ahead, alike)
        if work is not None:
            end = done + work.middle
            left = Left(costs.alone(done, end), work.spread)
            if job.duration is None or not kind.steps:  # nor is it known then how much has passed
                return end, left
            declared = self._declared_left(job, kind, told, done)
            return end, left if declared is None else agreed(left, declared)
        end = kind.reached
        declared = self._declared_left(job, kind, told, done)
        if declared is not None:
            return end, declared
        passed = costs.alone(0.0, done) if kind.steps else 0.0
        reached = passed if end == done or not kind.steps else costs.alone(0.0, end)
        return end, self._all.coarse(passed, reached, FIRST, octave_left(end))

    def _declared_left(self, job: Job, kind: JobKind, told: Told, done: float) -> Left | None:
        """Return the s on one device left of the user's duration, as users are usually right."""
        declared = self._declared(job, kind, stretch(done))
        passed = told.costs.alone(0.0, done) if kind.steps else 0.0
        return self._declarations.left(job.user, declared, passed) if declared > 0.0 else None

    def _lengths_heard(self, job: Job, kind: JobKind) -> tuple[float, int, int]:
        """Return what the work left follows from, beside the belief and what the job itself shows."""
        declared = 0 if job.duration is None else self._declarations.count
        if kind.tells_lengths(job.duration is not None):
            return self._scatter.usual, kind.lengths.count, declared
        return kind.reached, self._ended, declared

    def _of_total(self, job: Job, kind: JobKind, told: Told, done: float, end: float) -> Left:
        """Return the s on one device from `done` to an end that is known.

        Before a step was measured or foretold, a step has no length: the user's duration tells it, or
        jobs of any kind."""
        if told.timed:
            return Left(told.costs.alone(done, end), 0.0)
        rest = 1.0 - done / end if end > 0.0 else 0.0
        declared = self._declared(job, kind, stretch(done))
        if declared > 0.0:
            return Left(self.usual_part(job.user) * declared * rest, 0.0)
        usual = self._all.coarse(0.0, 0.0, FIRST, 1.0)
        return Left(usual.middle * rest, usual.spread)

    def _alike(self, kind: JobKind) -> AlikeLeft:
        """Return what is left of the application's jobs by what they have done."""
        state = self._scatter.usual, kind.lengths.count
        if kind.alike is None or kind.alike[0] != state:
            kind.alike = state, AlikeLeft.of(kind.lengths.sorted, state[0])
        return kind.alike[1]

    def _declared(self, job: Job, kind: JobKind, at: int) -> float:
        """Return the s on one device that the user's duration, with the gang, comes to; 0: none."""
        if job.duration is None:
            return 0.0
        asked = (each for each in job.device_types if each in self._node_devices)
        first, gang = next(asked, next(iter(self._node_devices))), max(1, job.workers.gang)
        return job.duration * self._speed(job, kind, at, at).rate(first, gang)

    def _here(self, job: Job, kind: JobKind, held: Held | None, speed: ByType) -> float | None:
        """Return the predicted speed on its devices, corrected by its measured step."""
        own = self._own.get(job.number)
        if held is None or own is None or own[0] != held:
            return None
        return self._measured(job, kind, held, speed, own[1])

    def _measured(self, job: Job, kind: JobKind, held: Held, speed: ByType, step: float) -> float:
        """Return the work per s that steps of this length come to, compared with those predicted on as
        many devices; of several types, with those on one of its first type."""
        devices = 1 if held.beside else held.workers
        batch = held.batch or job.batch
        asked = ("step", held.device_type, devices, batch)
        predicted = self._lately(
            kind, asked, lambda: self._step_now(job, kind, held.device_type, batch, devices)
        )
        return speed.rate(held.device_type, devices) * predicted / step

    def _step_now(
        self, job: Job, kind: JobKind, device_type: str, batch: int | None, devices: int
    ) -> float:
        """Return the s predicted of a step, nothing hoped for."""
        counts = self._counts(job, kind, device_type)
        measured = min(self._steps(kind, device_type).widest, len(counts))
        least = self._least(job, kind)
        if devices <= measured and self._batches(job, kind) == (batch,):
            return float(self._table(kind, device_type, (batch,), counts, least)[0][0, devices - 1])
        alone = range(devices, devices + 1)
        return float(self._table(kind, device_type, (batch,), alone, least)[0][0, 0])

    def _speed(self, job: Job, kind: JobKind, begin: int, end: int) -> ByType:
        """Return the speed-up over one device of the first type by name between two stretches."""
        asked = ("speed", job.batch, job.workers.most, job.device_types, begin, end)
        return self._lately(kind, asked, lambda: self._speed_now(job, kind, begin, end))

    def _speed_now(self, job: Job, kind: JobKind, begin: int, end: int) -> ByType:
        every = {each: self._cost(job, kind, each) for each in self._types(job)}
        key = ("speed", kind.name, job.batch, job.workers.most, job.device_types, begin, end)
        found = self._kept(key, tuple(every.values()), lambda: compared(every, begin, end))
        return self._fitting(job, kind, found)

    def _fitting(self, job: Job, kind: JobKind, speed: ByType) -> ByType:
        """Leave out numbers of devices whose memory does not hold their parts of a fixed batch, unless
        that would leave nothing: what is foretold of memory may be wrong."""
        if not kind.foreseen:
            return speed
        told = {name: each.most for name, each in kind.foreseen.items() if each.most < inf}
        if not told or job.batch is None or len(self._batches(job, kind)) > 1:
            return speed
        for name, steps in kind.steps.items():  # what has run fits
            told[name] = max(told.get(name, inf), steps.largest())
        asked = ("parts", kind.name, job.batch, job.workers.most)
        parts = self._kept(
            asked, (kind.range, kind.at_once), lambda: kind.parts(job.batch, job.workers.most)
        )
        held = ByType(
            tuple((name, table.only(parts, told.get(name, inf))) for name, table in speed.tables)
        )
        gangs = range(job.workers.gang, job.workers.most + 1)
        return held if any(held.rate(name, k) for name, _ in held.tables for k in gangs) else speed

    def _cost(self, job: Job, kind: JobKind, device_type: str) -> Costs:
        asked = ("cost", job.batch, job.workers.most, device_type)
        return self._lately(kind, asked, lambda: self._cost_now(job, kind, device_type))

    def _cost_now(self, job: Job, kind: JobKind, device_type: str) -> Costs:
        batches, devices = self._batches(job, kind), self._counts(job, kind, device_type)
        live = self._free and kind.range is not None and kind.range.live
        least = self._least(job, kind)
        key = ("cost", kind.name, device_type, batches, len(devices), live, least)
        return self._kept(
            key,
            (self._version(kind, device_type), kind.way.version),
            lambda: Costs(batches, self._rates(kind, device_type, batches, devices, least), free=live),
        )

    def _counts(self, job: Job, kind: JobKind, device_type: str) -> range:
        """Return the numbers of devices for which its speed is predicted."""
        steps, most = self._steps(kind, device_type), job.workers.most
        known = max(GROWTH * steps.widest, self._node_devices.get(device_type, 1))
        return range(1, (most if kind.foreseen else min(most, known)) + 1)

    def _table(
        self, kind: JobKind, device_type: str, batches: Batches, devices: Sequence[int], least: int
    ) -> tuple[Array, Array]:
        """Return `_seconds` as it was last worked out, if it still holds."""
        key = ("seconds", kind.name, device_type, batches, devices, least)
        version = self._version(kind, device_type)
        return self._kept(
            key, version, lambda: self._seconds(kind, device_type, batches, devices, least)
        )

    def _rates(
        self, kind: JobKind, device_type: str, batches: Batches, devices: Sequence[int], least: int
    ) -> Array:
        """Return work per s, (batches, devices, stretches)."""
        seconds, used = self._table(kind, device_type, batches, devices, least)
        # Before the first report: work is counted in steps of the smallest batch.
        values = np.array(kind.way.values() if kind.way else [1 / (batches[0] or UNKNOWN_BATCH)])
        if kind.range is None or not kind.noise:
            return np.asarray((used / seconds)[:, :, None] * values, dtype=np.float64)
        gains = gain(values, kind.range.smallest, used[:, :, None])
        return np.asarray(gains / seconds[:, :, None], dtype=np.float64)

    def _version(self, kind: JobKind, device_type: str) -> tuple[object, ...]:
        """Return what seconds depend on: whose reports, too, as two types' first may look alike."""
        live = kind.range is not None and kind.range.live
        heard = kind.batches.count if live else 0
        base = self._base(kind, device_type)
        return base, self._steps(kind, device_type).known(), self._slower(kind, device_type), heard

    def _seconds(
        self, kind: JobKind, device_type: str, batches: Batches, devices: Sequence[int], least: int
    ) -> tuple[Array, Array]:
        """Return s of a step and the batch actually used, (batches, devices), on packed devices.

        Infinite where a batch is too small for the devices; the largest batch always counts.
        """
        node = self._node_devices.get(device_type, max(devices))
        grid = self._grid(kind, batches, devices, node)
        steps = self._steps(kind, device_type)
        seconds = steps.seconds(grid.places, grid.whole, least).reshape(len(batches), len(devices))
        seconds *= self._slower(kind, device_type)
        hope(seconds, devices, steps.widest, max(GROWTH * steps.widest, node))
        if kind.range is not None and kind.range.live:
            kind.batches.correct(seconds, device_type, [batch or 0 for batch in batches], devices)
        if kind.range is not None and len(batches) > 1:
            seconds[grid.at_once < kind.range.least_each] = np.inf
        return seconds, grid.used

    def _grid(self, kind: JobKind, batches: Batches, devices: Sequence[int], node: int) -> BatchGrid:
        """Return where these steps are asked for, worked out once for all that split batches alike."""
        key = ("grid", kind.range, kind.at_once, batches, devices, node)
        return self._kept(key, None, lambda: grid_of(kind.split, batches, devices, node))

    def _spread(self, job: Job, kind: JobKind, device_type: str) -> float:
        """Return the spread of a step on as many devices as were seen."""
        asked = ("spread", job.batch, job.workers.most, device_type)
        return self._lately(kind, asked, lambda: self._spread_now(job, kind, device_type))

    def _spread_now(self, job: Job, kind: JobKind, device_type: str) -> float:
        steps, batch = self._steps(kind, device_type), self._batches(job, kind)[-1]
        devices = max(1, min(steps.widest, job.workers.most))
        place = PlacedSplit(
            packed(devices, self._node_devices[device_type]), kind.split(batch, devices)
        )
        key = ("spread", kind.name, device_type, devices, batch)
        version = self._base(kind, device_type), steps.fitted()
        spread = self._kept(key, version, lambda: steps.spread(place))
        return spread if device_type in kind.steps else hypot(spread, SPREAD)

    def _batches(self, job: Job, kind: JobKind) -> Batches:
        if not self._free or kind.range is None:
            return (job.batch,)
        if not kind.range.live:
            return kind.range.choices()
        if not kind.noise:
            return (kind.range.smallest,)
        most = GROWTH * max(kind.batches.largest, kind.range.smallest)
        return tuple(batch for batch in kind.range.choices() if batch <= most)

    def allow(self, application: str, limits: BatchRange) -> None:
        """Set the limits of an application's batches, from what its trainings say."""
        if self._ranges.get(application) == limits:
            return
        self._ranges[application] = limits
        if application in self._kinds:
            self._kinds[application].range = limits
            self._forget_answers()

    def _forget_answers(self) -> None:
        self._memo.clear()
        self._told.clear()
        for kind in self._kinds.values():
            kind.answers.clear()

    def _kind(self, job: Job) -> JobKind:
        name = job.application if job.application is not None else f"job {job.number}"
        known = self._kinds.get(name)
        if known is None:
            known = self._kinds[name] = JobKind(name, self._ranges.get(name))
        return known

    def _types(self, job: Job) -> tuple[str, ...]:
        """Return the types it may use, by name: fits begin from earlier ones, so even the order of
        questions leaves a trace."""
        allowed = (each for each in job.device_types if each in self._node_devices)
        return tuple(sorted(allowed)) or tuple(sorted(self._node_devices))

    def _steps(self, kind: JobKind, device_type: str) -> StepTimes:
        """Return the reports of the type; without any, those of the best known type."""
        base = self._base(kind, device_type)
        told = base if base in kind.foreseen else device_type
        return kind.steps.get(base) or StepTimes(self._unseen(kind, told))

    def _base(self, kind: JobKind, device_type: str) -> str:
        """Return the type that tells of this one: itself, or the best reported, or one foretold."""
        if device_type in (kind.steps or kind.foreseen):
            return device_type
        if kind.steps:
            return max(kind.steps, key=lambda each: (kind.steps[each].widest, each))
        return min(kind.foreseen or self._node_devices, default=device_type)

    def _slower(self, kind: JobKind, device_type: str) -> float:
        """Return s of a step on the type per s on the one whose reports tell of it."""
        base = self._base(kind, device_type)
        if base == device_type:
            return 1.0
        both = (each.steps for each in self._kinds.values() if {base, device_type} <= each.steps.keys())
        return slower(device_type, base, (ratio(at[device_type], at[base]) for at in both))

    def _unseen(self, kind: JobKind, device_type: str) -> Prior:
        """Return what is believed of an application's steps on a type before any was reported."""
        seen = kind.foreseen.get(device_type)
        return self._kept(
            ("unseen", device_type, seen),
            (self._heard, self._ended, len(self._kinds)),
            lambda: replace(self._prior(device_type), foresight=seen),
        )

    def _least(self, job: Job, kind: JobKind) -> int:
        """Return the samples on a device in its smallest step; once it was measured, fits know: 0."""
        return 0 if kind.steps else kind.smallest(self._batches(job, kind), job.workers.most)

    def usual(self) -> tuple[Prior, ...]:
        """Return what is believed of an application that nobody has seen, on each device type."""
        return tuple(self._prior(each) for each in self._node_devices)

    def _prior(self, device_type: str) -> Prior:
        """Return what all applications say of one that is unknown."""
        known = (each.steps[device_type] for each in self._kinds.values() if device_type in each.steps)
        found = tuple(shown for steps in known if (shown := steps.shown()) is not None)
        return self._kept(("prior", device_type), found, lambda: prior_from(found))

    def _lately(self, kind: JobKind, asked: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the last answer while what is believed of the application's steps is the same."""
        self._belief(kind)
        return kind.answer(asked, make)

    def _belief(self, kind: JobKind) -> int:
        """Return a number that changes with what is believed of an application's steps.

        It is weighed when something was heard of the application, and of any other as long as they
        tell of types on which this one was not measured. Most reports only confirm it.
        """
        others = self._heard if len(kind.steps) < len(self._node_devices) else -1
        own, of_others = kind.weighed
        if own != kind.heard or of_others != others:
            kind.weighed = kind.heard, others
            belief = self._weigh(kind)
            if belief != kind.belief:
                kind.belief, kind.beliefs = belief, kind.beliefs + 1
                kind.answers.clear()
        return kind.beliefs

    def _weigh(self, kind: JobKind) -> tuple[object, ...]:
        """Return all that predictions of an application's steps follow from."""
        versions = [self._version(kind, each) for each in self._node_devices]
        batches = bool(kind.noise), kind.batches.largest, kind.way.version
        mixing = kind.mixing.values() if kind.mixing else []
        return versions, tuple(kind.steps), batches, mixing, kind.foreseen

    def _kept(self, key: tuple[object, ...], state: object, make: Callable[[], T]) -> T:
        known = self._memo.get(key)
        if known is None or known[0] != state:
            if len(self._memo) > KEPT:
                self._memo.clear()
            known = self._memo[key] = state, make()
        found: T = known[1]
        return found
