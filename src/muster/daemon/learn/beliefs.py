"""What live jobs and jobs like them have shown, as beliefs: see docs/explanation/learning.md.

Messages of tasks become reports to the same `Learner` that the simulator uses. Work is counted in
steps. A job that reports none counts seconds on one device instead, at the speed believed of any job,
and is kept apart from those that do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import exp

from muster.daemon.learn.applications import Applications, fingerprint, for_learner
from muster.daemon.learn.by_job import ByJob
from muster.daemon.learn.convergence import LossEnding
from muster.daemon.learn.free_batch import range_of
from muster.daemon.learn.live import LiveJob, LiveState, note_of_end, note_of_state, state_of
from muster.daemon.learn.neighbours import NeighbourWatch
from muster.daemon.learn.notes import (
    PROGRESS,
    SHAPE,
    ChangeNote,
    EndNote,
    Kin,
    StepNote,
    carried_of,
    hop_of,
    note_of,
    note_of_transfer,
    shown_of,
)
from muster.daemon.learn.progress import Progress
from muster.daemon.learn.shapes import Shapes, shape_mark
from muster.daemon.learn.transfers import Spot, Transfers
from muster.daemon.learn.window import Window
from muster.model.cluster import Cluster
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.outlook import Outlook
from muster.model.placement import Placement
from muster.model.plan import Sync
from muster.model.slowdowns import Slowdowns
from muster.model.view import JobState, View
from muster.perf.history.crowding import among_neighbours
from muster.perf.history.hops import NodeLink
from muster.perf.history.links import LinkHistory
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner
from muster.perf.learnt.lengths import ENOUGH
from muster.perf.learnt.step_report import StepReport
from muster.perf.speed.fitted import NORMAL_80, Prior
from muster.store.batch import Note
from muster.wire.tasks.messages import Captured, Changed, Message, Saved, StepDone, Transferred

NOTED_AGAIN = 600.0
"""Least s between two notes of an application on the same devices: a restart needs one of each."""

GUESS = 0.9
"""Spread above which lengths of similar jobs predict no finish: that of an unknown job is 1.1, a factor
of 3."""

UNKNOWN = "unknown"
"""The application of all jobs about which nothing is known."""

STEADY = 0.05
"""Least relative gain of another batch: each change is an entry in the journal."""

ALIKE = 4096
"""Most outlooks cached for jobs that have not run."""


NO_LINKS = LinkHistory()


@dataclass(slots=True, eq=False)
class UnstartedKind:
    """Jobs that have not run, and of which the same is known."""

    job: Job
    """One of them."""
    kin: Kin
    known: tuple[tuple[object, ...], Outlook] | None = None
    """Their outlook, after what was learnt when it was made."""


class Beliefs:
    """Turns the messages of jobs into progress, outlooks and predictions."""

    def __init__(
        self,
        node_devices: Mapping[str, int],
        cluster: Cluster | None = None,
        *,
        learn_links: bool = True,
    ) -> None:
        """`node_devices`: most devices on one node, by type; `cluster`: whose links are learnt;
        `learn_links`: whether decisions are made by them, else by what the cluster file claims."""
        self._known = _of_nodes(node_devices)
        self._learner = Learner(self._known, free_batch=True, steady=STEADY)
        self._live: dict[int, LiveJob] = {}
        self._remembered: dict[int, LiveState] = {}
        """Jobs of an earlier daemon that this one has not heard yet."""
        self._now = 0.0
        """The latest time that was passed in."""
        self._applications = Applications()
        self._transfers, self._learn_links = Transfers(cluster), learn_links
        self._neighbours = NeighbourWatch()
        self._kinds = ByJob(lambda job: self._applications.kin(job).application)
        self._shapes = Shapes()
        self._asks = False
        """Whether another batch than it has would do a training good."""
        self._notes: list[Note] = []
        self._noted: dict[tuple[object, ...], float] = {}
        self._learnt = 0
        """Reports to the learner so far."""
        self._learnt_of: dict[str, int] = {}
        """The same by application."""
        self._endings = 0
        """Ends reported to the learner so far: each changes the outlook of all jobs."""
        self._alike: dict[tuple[object, ...], UnstartedKind] = {}
        """Jobs that have not run, by what is known of them: many share one outlook."""
        self._unstarted, self._marks = ByJob(self._alike_of), ByJob(self._known_mark)

    # --- input ---

    def follow(self, node_devices: Mapping[str, int], cluster: Cluster | None = None) -> None:
        """Take in that nodes have come or gone."""
        self._transfers.cluster = cluster or self._transfers.cluster
        known = _of_nodes(node_devices)
        if known != self._known:
            self._known = known
            self._learner.follow(known)
            self._unstarted.clear()
            self._alike.clear()

    def meet(self, state: JobState) -> None:
        """Take in a new job."""
        for each in (self._unstarted, self._marks):
            each.meet(state)

    def hear(self, job: Job, message: Message, now: float) -> None:
        """Take in a message of one of the job's tasks."""
        self._now = now
        if isinstance(message, StepDone):
            self._hear_step(self._of(job), message, now)
        elif isinstance(message, Transferred):
            learnt = self._transfers.hear(job.number, message, now)
            self._notes += [note_of_transfer(each) for each in learnt]
        elif isinstance(message, Captured):
            live, model = self._of(job), fingerprint(message.shape)
            live.watch.learn(message)
            mark = shape_mark(job.user, model)
            self._shapes.capture(job.number, mark, message.shape, message.batch, now)
            if live.track.note_shape(message, model):
                self._applications.learn(self._kin(live))
                self._note_progress(live)
        elif isinstance(message, Changed):
            self._of(job).track.note_change(message)
            self._shapes.changed(job.number, message)
        elif isinstance(message, Saved):
            self._of(job).track.note_saved(message)

    def holds(
        self,
        job: Job,
        held: Held | None,
        now: float,
        spots: Mapping[str, Spot] | None = None,
        began: float | None = None,
    ) -> None:
        """Set what the job runs on from now on, None for nothing.

        `spots`: where its tasks are, so that their transfers say something about links. `began`: when
        it was given its first devices, which are idle until its tasks have loaded; None: now.
        """
        self._now = now
        if held is None and job.number not in self._live and job.number not in self._remembered:
            return
        live = self._of(job)
        self._transfers.place(job.number, (spots or {}) if held is not None else {})
        if held == live.held:
            return
        live.spent = self._spent(live, now)
        if live.held is None and not (job.restarts or job.program.checkpoint_signal):
            live.spent = 0.0  # a plain program starts over
        if live.held is None:
            live.starting = now if began is None else began
        live.held, live.since, live.window = held, now, None
        self._shapes.placed(job.number)
        self._note_progress(live)

    def seat(self, job: Job, placement: Placement | None, cluster: Cluster, now: float) -> None:
        """Set whose neighbour the job is from now on, None for nobody's."""
        kind = self._kin(self._of(job)).application if placement is not None else ""
        self._begin_windows(self._neighbours.place(job.number, kind, placement, cluster, now))

    def ended(self, job: Job, now: float, succeeded: bool) -> None:
        """Learn from a job that has ended, then forget it."""
        live = self._of(job)
        kin, told = self._for_learner(live)
        work = live.track.done if kin.reports else self._spent(live, now)
        self._notes.append(note_of_end(job.number, now))
        if succeeded and work > 0:
            ending = EndNote(kin, work, job.user, self._part(told, kin, work))
            self._learn_end(told, ending)
            self._notes.append(note_of(ending, now))
        self._learner.forget(told)
        self._transfers.place(job.number, {})
        self._begin_windows(self._neighbours.leave(job.number))
        self._shapes.forget(job.number)
        del self._live[job.number]

    # --- answers ---

    def progress(self, job: int, now: float | None = None) -> Progress | None:
        """Return a job's progress, by default as of the latest message; None if it reports nothing."""
        live = self._live.get(job)
        if live is None or not (live.track.reported or live.track.shape):
            return None
        progress = live.track.progress(self._now if now is None else now)
        slowed, beside = self._neighbours.worst(job, live.held) or (0.0, 0)
        return replace(progress, slowed=slowed, beside=beside)

    def losses(self, job: int, most: int = 200) -> tuple[tuple[int, float], ...]:
        """Return at most this many steps with their losses."""
        live = self._live.get(job)
        return live.track.losses.thinned(most) if live else ()

    def trained(self, job: int) -> tuple[int, int, int]:
        """Return a job's step, the samples it has trained on, and its workers; 0: unknown."""
        live = self._live.get(job)
        return (live.track.step, live.track.samples, live.track.workers) if live else (0, 0, 0)

    def outlooks(self, view: View, now: float) -> dict[int, Outlook]:
        """Return the outlook of every job of the view."""
        self._now = now
        waiting = self._unstarted.of(view.jobs, self._applications.version, self._live)
        usual = self._learner.usual()
        told = {alike: self._outlook_alike(alike, usual) for alike in set(waiting.values())}
        found = {number: told[alike] for number, alike in waiting.items()}
        for number, live in self._live.items():
            if number in view.jobs:
                found[number] = self._outlook(live, now)
        return dict(among_neighbours(found, self._neighbours.all_slowed()))

    def slowdowns(self, view: View) -> Slowdowns:
        """Return what is believed about neighbours."""
        if not self._neighbours.knows_kinds:
            return self._neighbours.slowdowns({})
        waiting = self._kinds.of(view.jobs, self._applications.version, self._live)
        known = {n: self._kin(live).application for n, live in self._live.items() if n in view.jobs}
        return self._neighbours.slowdowns({**waiting, **known})

    def finish(self, job: int, view: View, now: float) -> float | None:
        """Predict when a job ends; None if it does not run, or nothing says how long it is.

        A job that reports nothing and has no declared duration would be given as long again as it has
        run, one beyond its duration the next moment, and steps that nobody has timed the s that they
        might take: none of these is a prediction.
        """
        live = self._live.get(job)
        if live is None or live.held is None or job not in view.jobs:
            return None
        kin, told = self._for_learner(live)
        outlook = self._outlook(live, now)
        if not outlook.timed:
            return None
        declared = live.job.duration is not None
        alike = (kin.reports or declared) and self._applications.have_ended(kin.application)
        by_loss = told.work is None and live.watch.predicts(live.track.done)
        if told.work is None and not ((alike or by_loss or declared) and outlook.spread <= GUESS):
            return None
        workers = sum(live.held.shape)
        rate = outlook.here or outlook.speed.rate(live.held.device_type, workers)
        return now + outlook.left / rate if rate > 0 and outlook.left > 0 else None

    def finish_span(self, job: int, finish: float, now: float) -> tuple[float, float]:
        """Return the 80 % interval of a predicted finish."""
        factor = exp(NORMAL_80 * min(self._outlook(self._live[job], now).spread, GUESS))
        return now + (finish - now) / factor, now + (finish - now) * factor

    def ending(self, job: int) -> LossEnding | None:
        """Return when the loss of a job ends it, and whether it has stopped falling; None: unknown."""
        live = self._live.get(job)
        if live is None or not live.track.reported:
            return None
        return replace(live.watch.ending(live.track.done), is_fixed=live.track.asynchronous)

    def inform(self, view: View, now: float) -> View:
        """Return the view with what trainings look like, and what is known of links and neighbours."""
        version = self._applications.version, self._shapes.models
        marks = {n: mark for n, mark in self._marks.of(view.jobs, version, self._live).items() if mark}
        marks |= {n: self._mark(live.job) for n, live in self._live.items() if n in view.jobs}
        self._asks = False
        self._now, links = now, self.links()
        knowledge = self._shapes.knowledge(links, now)
        shapes, slowdowns = self._shapes.of(marks, view.jobs), self.slowdowns(view)
        told = replace(view, shapes=shapes, knowledge=knowledge, slowdowns=slowdowns)
        return replace(told, uplinks=links.nodes)

    @property
    def has_news(self) -> bool:
        """Whether a training has shown something since the last `inform` by which it may be planned."""
        return self._shapes.untold or self._asks

    def step_of(self, job: int, sync: Sync) -> float | None:
        """Return the s of a job's step as measured with its current tasks, synchronised so."""
        return self._shapes.step_of(job, sync)

    def _mark(self, job: Job) -> str:
        """Return the mark of the model that a job trains, or that the last like it has."""
        live = self._live.get(job.number)
        own = live.track.shape if live is not None else ""
        return shape_mark(job.user, own or self._applications.last_shape(job))

    def _known_mark(self, job: Job) -> str:
        """Return the mark of the model that a job trains, empty for one that nobody has seen."""
        mark = self._mark(job)
        return mark if self._shapes.model(mark) is not None else ""

    def links(self) -> LinkHistory:
        """Return what links have carried, over all jobs, as far as it shall be used; the same object
        while nothing changes."""
        return self._transfers.history(self._now) if self._learn_links else NO_LINKS

    def node_links(self) -> Mapping[str, NodeLink]:
        """Return what is known of the links of single nodes."""
        return self._transfers.nodes(self._now)

    # --- across restarts ---

    def observations(self) -> list[Note]:
        """Return the notes to store since the last call."""
        notes, self._notes = [*self._notes, *self._shapes.notes()], []
        return notes

    def restore(self, notes: Iterable[Note]) -> None:
        """Learn from the notes of earlier daemons, of `notes.KINDS`, oldest first."""
        endings: list[EndNote] = []
        for note in notes:
            shown = shown_of(note)
            if isinstance(shown, EndNote):
                endings.append(shown)
            elif isinstance(shown, ChangeNote):
                self._learn_change(_past(shown.kin), shown)
            elif shown is not None:
                self._allow(shown.kin)
                self._learn_step(_past(shown.kin), shown)
            elif self._neighbours.restore(note):
                pass
            elif note.kind == SHAPE:
                self._shapes.restore(note)
            elif (carried := carried_of(note)) is not None:
                self._transfers.add(carried)
            elif (hop := hop_of(note)) is not None:
                self._transfers.add_hop(hop)
            elif note.kind == PROGRESS and note.key.isdecimal():
                state = state_of(note)
                self._remembered.pop(int(note.key), None)
                if state is not None:
                    self._remembered[int(note.key)] = state
        # Last: lengths depend on the speed that all reports together have shown.
        for ending in endings:
            self._learn_end(_past(ending.kin, ending.user), ending)

    # --- inside ---

    def _of(self, job: Job) -> LiveJob:
        live = self._live.get(job.number)
        if live is None:
            state = self._remembered.pop(job.number, None)
            live = LiveJob.restored(job, state) if state else LiveJob(job)
            self._live[job.number] = live
        elif live.job is not job:
            live.job, live.told = job, None  # reshaped by its user
        return live

    def _hear_step(self, live: LiveJob, done: StepDone, now: float) -> None:
        track, known = live.track, live.track.reported
        if not track.note_step(done, now):
            return
        live.watch.hear(done)
        if not known:
            self._applications.learn(self._kin(live))
        if self._neighbours.awaits(live.job.number):
            self._begin_windows(self._neighbours.stepped(live.job.number, self._kin(live).application))
        held = live.held
        # During a loss or a change tasks report from other devices than the job holds.
        if held is None or track.workers != sum(held.shape) or done.formation != track.formation:
            return
        batch = track.free.batch if track.free.largest else 0
        if live.window is None or (live.window.formation, live.window.batch) != (done.formation, batch):
            if live.window is None or live.window.formation != done.formation:
                self._hear_change(live, done.formation, now)
            live.window = Window(done.formation, track.asynchronous, batch)
        self._shapes.step(live.job.number, done)
        report = live.window.add(done)
        if report is not None:
            self._shapes.measured(live.job.number, report.step, self._transfers.spots(live.job.number))
            self._add_step(live, held, report, now)

    def _hear_change(self, live: LiveJob, formation: int, now: float) -> None:
        """Learn what the change that has just ended has cost."""
        took = live.took(formation, now)
        if took is None:
            return
        kin, told = self._for_learner(live)
        self._learn_change(told, shown := ChangeNote(kin, *took))
        key = (kin.application, shown.change)
        if now >= self._noted.get(key, -NOTED_AGAIN) + NOTED_AGAIN:
            self._noted[key] = now
            self._notes.append(note_of(shown, now))

    def _add_step(self, live: LiveJob, held: Held, report: StepReport, now: float) -> None:
        met = self._neighbours.hear(live.job.number, held, report.step, now)
        if met is not None:
            self._notes.append(met)
        free = live.track.free
        free.note_room(held.batch)
        kin, told = self._for_learner(live)
        batch = free.batch if free.largest and free.batch != kin.batch else held.batch
        step = StepNote(
            kin,
            held.device_type,
            held.shape,
            report.step,
            report.sync or 0.0,
            live.track.done,
            batch,
            self._neighbours.slowed(live.job.number),
            free.noise,
            held.beside,
        )
        # What is seen for the first time may call for another share, and nothing else may happen soon.
        self._asks = self._asks or not self._learner.has_seen(told, held)
        self._learn_step(told, step)
        if free.largest:
            best = self._outlook(live, now).speed.batch(held.device_type, held.workers)
            self._asks = self._asks or best != held.batch
        key = (kin.application, held.device_type, held.shape, batch, kin.batch, held.beside)
        if now >= self._noted.get(key, -NOTED_AGAIN) + NOTED_AGAIN:
            self._noted[key] = now
            self._notes.append(note_of(step, now))
        self._note_progress(live)

    def _begin_windows(self, jobs: Iterable[int]) -> None:
        """Drop the steps measured of jobs with other neighbours now: those to come differ."""
        for number in jobs:
            if number in self._live:
                self._live[number].window = None

    def _note_progress(self, live: LiveJob) -> None:
        self._notes.append(note_of_state(live, self._now))

    def _learn_step(self, told: Job, shown: StepNote) -> None:
        held = Held(shown.device_type, shown.workers, shown.told_batch, beside=shown.beside)
        # A single worker synchronises with nobody: what it measured is something else.
        sync = shown.sync if sum(shown.workers) > 1 else 0.0
        own = shown.kin.batch or held.batch or 1
        gain = (held.batch or own) / own if shown.kin.largest else 1.0  # no order: its own batch
        report = StepReport(shown.step, sync, gain, shown.noise, slowed=shown.slowed)
        self._learner.watch(told, held, report, shown.done)
        self._applications.learn(shown.kin)
        self._count(shown.kin)

    def _learn_change(self, told: Job, shown: ChangeNote) -> None:
        self._learner.paused(told, shown.change, shown.seconds)
        self._count(shown.kin)

    def _learn_end(self, told: Job, ending: EndNote) -> None:
        self._learner.ended(told, ending.work, ending.part)
        self._applications.learn(ending.kin)
        self._applications.end(ending.kin)
        self._endings += 1
        self._count(ending.kin)

    def _count(self, kin: Kin) -> None:
        self._learnt += 1
        self._learnt_of[kin.application] = self._learnt_of.get(kin.application, 0) + 1

    def _kin(self, live: LiveJob) -> Kin:
        return self._applications.kin(live.job, live.track)

    def _for_learner(self, live: LiveJob) -> tuple[Kin, Job]:
        track = live.track
        shape = (track.shape, track.batch, track.steps, track.free.largest)
        key = (self._applications.version, track.reported, *shape)
        if live.told is None or live.told[0] != key:
            kin = self._kin(live)
            self._allow(kin)
            live.told = key, kin, for_learner(live.job, kin, self._work(live.job, kin, track.steps))
            self._foresee(live.job, live.told[2])
        return live.told[1], live.told[2]

    def _work(self, job: Job, kin: Kin, steps: int) -> float | None:
        """Return all the work of a job, if the training or the user says so."""
        if kin.reports:
            return float(steps) if steps else job.work
        if job.duration is None or self._applications.have_ended(kin.application, ENOUGH):
            return None
        return self._learner.usual_part(job.user) * self._declared(job, kin)

    def _declared(self, job: Job, kin: Kin) -> float:
        """Return the s on one device of the duration, which users tell for the workers of the gang."""
        assert job.duration is not None
        speed = self._learner.outlook(for_learner(job, kin, None), None, 0.0).speed
        types = tuple(self._known)
        first = next((each for each in job.device_types if each in types), types[0])
        return job.duration * speed.rate(first, max(1, job.workers.gang))

    def _part(self, job: Job, kin: Kin, work: float) -> float | None:
        """Return the part of its user's duration that a job took; None: unknown."""
        if job.duration is None or kin.reports:
            return self._learner.part_of_declared(job, work)
        return work / self._declared(job, kin)

    def _outlook(self, live: LiveJob, now: float) -> Outlook:
        found = self._learnt_outlook(live, now)
        shown = live.start_so_far(now)
        known = live.job.pause if found.start is None else found.start
        return replace(found, start=shown) if shown > known else found

    def _learnt_outlook(self, live: LiveJob, now: float) -> Outlook:
        kin, told = self._for_learner(live)
        if not kin.reports:
            return self._learner.outlook(told, live.held, self._spent(live, now))
        # A restarted job resumes from its checkpoint.
        track = live.track
        kept = min(1.0, track.saved / max(1, track.step)) if live.held is None else 1.0
        ends = live.watch.left(kept * track.done, track.free.efficiency or 1.0)
        return self._learner.outlook(told, live.held, kept * track.done, ends)

    def _allow(self, kin: Kin) -> None:
        """Let the learner choose the batch of an application within its limits."""
        limits = range_of(kin.batch, kin.largest)
        if limits is not None:
            self._learner.allow(kin.application, limits)

    def _foresee(self, job: Job, told: Job) -> None:
        """Tell the learner what the shape of a job's model foretells, if it is known."""
        model = self._shapes.model(self._mark(job)) or job.model
        if model is not None:
            found = self._shapes.foretold(model, self._transfers.cluster)
            self._learner.foresee(told, found, model.micro_batch)

    def _alike_of(self, job: Job) -> UnstartedKind:
        """Return a job that has not run with all about which the same is known."""
        kin = self._applications.kin(job)
        if job.model is None and not self._applications.knows(kin):
            kin = Kin(UNKNOWN, UNKNOWN, batch=kin.batch, reports=kin.reports)
        asks = (job.workers.gang, job.workers.most, job.device_types)
        key = (kin.application, kin.batch, job.work, job.duration, asks)
        if key not in self._alike:
            if len(self._alike) > ALIKE:
                self._alike.clear()
            self._alike[key] = UnstartedKind(job, kin)
        return self._alike[key]

    def _outlook_alike(self, alike: UnstartedKind, usual: tuple[Prior, ...]) -> Outlook:
        """Return the outlook of some jobs, made again if something was learnt that it depends on.

        `usual`: what is believed of applications that nobody has seen."""
        learnt = self._learnt_of.get(alike.kin.application, 0)
        version = learnt or usual, self._endings
        if alike.known is None or alike.known[0] != version:
            told = for_learner(alike.job, alike.kin, self._work(alike.job, alike.kin, 0))
            self._foresee(alike.job, told)
            alike.known = version, self._learner.outlook(told, None, 0.0)
        return alike.known[1]

    def _spent(self, live: LiveJob, now: float) -> float:
        """Return the estimated s on one device that a job has run by now."""
        kin, told = self._for_learner(live)
        if live.held is None or kin.reports:
            return live.spent
        speed = self._learner.outlook(told, None, live.spent).speed
        rate = speed.rate(live.held.device_type, sum(live.held.shape))
        return live.spent + rate * max(0.0, now - live.since)


def _past(kin: Kin, user: str = "nobody") -> Job:
    """Return a stand-in for a job of an earlier daemon."""
    role = RoleSpec(Role.WORKER, Need(devices=1), 1, 1, 1)
    return Job("", roles=(role,), user=user, application=kin.application, batch=kin.batch)


def _of_nodes(node_devices: Mapping[str, int]) -> dict[str, int]:
    """Most devices on a node by type; a cluster without devices still runs programs."""
    return dict(node_devices) or {"": 1}
