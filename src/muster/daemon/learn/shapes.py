"""What trainings look like and how long their parts take: what the cycle's planner is asked with.

A model is captured by the workers of a job and kept by its mark, the user and the fingerprint of the
model, in the store too: so a similar job is planned before its first step, and no user's jobs change
what is believed of another's. Computing is measured on each type of device; a job's step
on each way in which its current tasks have synchronised.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import msgspec

from muster.daemon.learn.captured import profile_of
from muster.daemon.learn.notes import SHAPE
from muster.daemon.learn.transfers import Spot
from muster.model.cluster import Cluster
from muster.model.plan import ChosenPlan, Overlap, Sync
from muster.model.profile import CapturedShape, ModelProfile
from muster.model.view import JobState
from muster.perf.compute import Computed, ComputeHistory
from muster.perf.history.links import LinkHistory
from muster.perf.history.steps import StepHistory, Stepped
from muster.perf.learnt.foretold import Foreteller
from muster.perf.predict import Knowledge
from muster.perf.speed.foresight import Foresight
from muster.store.batch import Note
from muster.wire.tasks.messages import Changed, StepDone

KEPT = 6
"""Measurements of computing kept of each model, type of device and batch."""

STEPS = 200
"""Measured steps kept of all jobs."""

FRESH = 10.0
"""Least s between two states of knowledge: each makes the cycle ask the planner again."""

NEWS = 0.05
"""A measurement this close to what is known changes nothing."""

WAYS = {"ring": Sync.RING, "nccl": Sync.RING, "sharded": Sync.SHARDED, "dedicated": Sync.DEDICATED}
"""What tasks report of how they synchronise."""

ComputeKey = tuple[str, str, int]
"""Model, type of device, and samples of a device."""


@dataclass(slots=True)
class _Watched:
    """What one job has shown on its current tasks."""

    profile: ModelProfile
    batch: int | None = None
    sync: Sync | None = None
    formation: int = 0
    measured: dict[Sync, float] = field(default_factory=dict)
    computed: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    """By task: its samples, steps with as many, and their s of computing together."""
    plan: ChosenPlan | None = None
    """That the job was given."""
    shape: CapturedShape | None = None

    @property
    def computing(self) -> float:
        """Return the s of computing in a step of the slowest task; 0: unknown."""
        means = (total / steps for _, steps, total in self.computed.values())
        return max(means, default=0.0)

    def told(self) -> CapturedShape:
        """Return it as the cycle sees it: the same object while it is the same."""
        measured = tuple((sync.value, seconds) for sync, seconds in sorted(self.measured.items()))
        known = CapturedShape(self.profile, self.batch, measured)
        if self.shape != known:
            self.shape = known
        return self.shape or known


def shape_mark(user: str, fingerprint: str) -> str:
    """Return the key of a user's model."""
    return f"{user}: {fingerprint}"


class Shapes:
    """The shapes of all jobs, and what measured steps say about devices."""

    def __init__(self) -> None:
        self._models: dict[str, tuple[ModelProfile, int | None]] = {}
        self._jobs: dict[int, _Watched] = {}
        self._computed: dict[ComputeKey, list[float]] = {}
        self._steps: dict[tuple[int, Sync], Stepped] = {}
        self._news = True
        self._knowledge = Knowledge()
        self._made = -FRESH
        self._notes: list[Note] = []
        self._foreteller: Foreteller | None = None
        self.untold = False
        """Whether a job has shown something since a cycle was told: it may want another plan."""

    # --- input ---

    def capture(self, job: int, mark: str, shape: Mapping[str, Any], batch: int, now: float) -> None:
        """Take in the model that a job trains; each of its workers says so."""
        known = self._models.get(mark)
        if known is None or known[1] != (batch or None):
            profile = known[0] if known else profile_of(shape, mark)
            if profile is None:
                return
            known = self._models[mark] = profile, batch or None
            body = msgspec.json.encode({"shape": shape, "batch": batch})
            self._notes.append(Note(SHAPE, mark, now, body))
        watched = self._jobs.get(job)
        if watched is not None and watched.profile is known[0]:
            watched.batch = known[1]
        else:
            self._jobs[job] = _Watched(*known)
            self.untold = True

    def changed(self, job: int, change: Changed) -> None:
        """Take in how a job's members synchronise; what another formation measured on them stays."""
        watched = self._jobs.get(job)
        if watched is not None and change.formation >= watched.formation:
            watched.formation, watched.sync = change.formation, WAYS.get(change.way)
            watched.computed.clear()

    def placed(self, job: int) -> None:
        """Take in that a job runs on other tasks: what was measured is void."""
        watched = self._jobs.get(job)
        if watched is not None:
            watched.measured.clear()
            watched.computed.clear()

    def step(self, job: int, done: StepDone) -> None:
        """Take in a worker's step: its computing."""
        watched, seconds = self._jobs.get(job), done.forward + done.backward
        if watched is None or not (done.samples and isfinite(seconds) and seconds > 0):
            return
        samples, steps, total = watched.computed.get(done.task, (done.samples, 0, 0.0))
        if samples != done.samples:
            steps, total = 0, 0.0
        watched.computed[done.task] = done.samples, steps + 1, total + seconds

    def measured(self, job: int, step: float, spots: Mapping[str, Spot]) -> None:
        """Take in the mean step of a window, and what its workers computed in it."""
        watched = self._jobs.get(job)
        if watched is None or not (isfinite(step) and step > 0):
            return
        if watched.sync is not None:
            before = watched.measured.get(watched.sync)
            if before is None or abs(step / before - 1) > NEWS:
                watched.measured[watched.sync] = step
                self.untold = True
                self._note_step(job, watched, watched.sync, step)
        for task, (samples, steps, total) in watched.computed.items():
            if task in spots:
                self._note_computed(
                    watched.profile.name, spots[task].device_type, samples, total / steps
                )
        watched.computed.clear()

    def _note_step(self, job: int, watched: _Watched, sync: Sync, step: float) -> None:
        """Keep how a step compares with its prediction, the latest of each job and way.

        A plan may be older than what is known of computing. What it got wrong of that is learnt as
        computing: here it would be taken for the way to synchronise, and count twice."""
        plan = watched.plan
        if plan is not None and plan.sync is sync and plan.plain > 0:
            predicted = max(plan.plain, min(watched.computing, step))
            self._steps.pop((job, sync), None)
            self._steps[job, sync] = Stepped(
                str(job), watched.profile.name, sync, Overlap.FULL, predicted, step
            )
            while len(self._steps) > STEPS:
                del self._steps[next(iter(self._steps))]
            self._news = True

    def forget(self, job: int) -> None:
        """Drop a job that has ended; its model stays."""
        self._jobs.pop(job, None)

    def _note_computed(self, model: str, device_type: str, samples: int, seconds: float) -> None:
        known = self._computed.setdefault((model, device_type, samples), [])
        mean = sum(known) / len(known) if known else 0.0
        known.append(seconds)
        del known[:-KEPT]
        self._news = self._news or abs(sum(known) / len(known) - mean) > NEWS * mean

    # --- answers ---

    def of(self, marks: Mapping[int, str], jobs: Mapping[int, JobState]) -> dict[int, CapturedShape]:
        """Return the shapes of jobs, given the mark of the model that each should train."""
        found, self.untold = {}, False
        for number, mark in marks.items():
            watched = self._jobs.get(number)
            if watched is None and mark in self._models:
                watched = self._jobs[number] = _Watched(*self._models[mark])
            if watched is not None:
                watched.plan = jobs[number].plan
                found[number] = watched.told()
        return found

    @property
    def models(self) -> int:
        """Return how many models are known."""
        return len(self._models)

    def step_of(self, job: int, sync: Sync) -> float | None:
        """Return the s of a step that a job has measured with its current tasks; None: not yet."""
        watched = self._jobs.get(job)
        return watched.measured.get(sync) if watched is not None else None

    def model(self, mark: str) -> ModelProfile | None:
        """Return the model of a mark."""
        known = self._models.get(mark)
        return known[0] if known is not None else None

    def foretold(self, model: ModelProfile, cluster: Cluster | None) -> Mapping[str, Foresight]:
        """Return what a model foretells of its steps by device type."""
        if cluster is None:
            return {}
        before = self._foreteller
        if before is None or before.cluster is not cluster or before.knowledge is not self._knowledge:
            self._foreteller = before = Foreteller(cluster, self._knowledge)
        return before.of(model)

    def knowledge(self, links: LinkHistory, now: float) -> Knowledge:
        """Return what is known: the same object until something has changed, and for a while."""
        news = self._news or links is not self._knowledge.links
        if news and now >= self._made + FRESH:
            self._made, self._news = now, False
            self._knowledge = replace(
                self._knowledge,
                compute=ComputeHistory(tuple(self._means())),
                links=links,
                steps=StepHistory(tuple(self._steps.values())),
            )
        return self._knowledge

    def _means(self) -> list[Computed]:
        return [
            Computed(model, device_type, samples, sum(known) / len(known))
            for (model, device_type, samples), known in self._computed.items()
        ]

    # --- across restarts ---

    def notes(self) -> list[Note]:
        """Return the notes to store since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def restore(self, note: Note) -> None:
        """Take in the model of a note; an invalid one is ignored."""
        try:
            body = msgspec.json.decode(note.body, type=_Body)
        except msgspec.DecodeError:
            return
        profile = profile_of(body.shape, note.key)
        if profile is not None:
            self._models[note.key] = profile, body.batch or None


class _Body(msgspec.Struct, frozen=True):
    shape: dict[str, Any]
    batch: int = 0
