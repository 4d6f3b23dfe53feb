"""What live jobs and their like have shown, as beliefs: see docs/explanation/learning.md.

The simulator hands reports of its truth to the `Learner`; here real messages are put together into such
reports. Work is counted in steps. A job that reports none counts seconds instead (on one device, at the
speed that is believed of any job), and is kept apart from those that do.
"""

from collections.abc import Iterable, Mapping

from muster.daemon.learn.applications import Applications, as_told, fingerprint
from muster.daemon.learn.live import Live, LiveState, note_of_end, note_of_state, state_of
from muster.daemon.learn.notes import (
    PROGRESS,
    Ending,
    Kin,
    Showing,
    carried_of,
    note_of,
    note_of_transfer,
    shown_of,
)
from muster.daemon.learn.progress import Progress
from muster.daemon.learn.transfers import Spot, Transfers
from muster.daemon.learn.window import Window
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.outlook import Outlook
from muster.model.view import View
from muster.perf.history.links import LinkHistory
from muster.perf.learnt.learner import Held, Learner, Report
from muster.store.batch import Note
from muster.wire.messages import Captured, Changed, Message, Saved, StepDone, Transferred

NOTED_AGAIN = 600.0
"""s after which what an application shows on the same devices is noted again: a restart needs one
report of each setting."""

UNKNOWN = "unknown"
"""Stands for every application that has shown nothing: the same is believed of them all."""

ALIKE = 4096
"""Outlooks kept of jobs that have not run, at most."""


class Beliefs:
    """Hears what jobs say of themselves; tells how far they are, and what is to be expected."""

    def __init__(self, node_devices: Mapping[str, int]) -> None:
        """`node_devices`: devices on a node, by type."""
        known = dict(node_devices) or {"": 1}  # a cluster without devices still runs programs
        self._types = tuple(known)
        self._learner = Learner(known)
        self._live: dict[int, Live] = {}
        self._remembered: dict[int, LiveState] = {}
        """Of jobs that an earlier daemon has heard and this one not yet."""
        self._now = 0.0
        """The latest moment that was told."""
        self._applications = Applications()
        self._transfers = Transfers()
        self._notes: list[Note] = []
        self._noted: dict[tuple[object, ...], float] = {}
        self._learnt = 0
        """Counts what the learner was told."""
        self._learnt_of: dict[str, int] = {}
        """The same by application."""
        self._endings = 0
        """Jobs whose length the learner was told: it counts for all others too."""
        self._fresh: dict[int, tuple[Job, tuple[int, int], Outlook]] = {}
        """Of jobs that have not run: as it was when last asked."""
        self._alike: dict[tuple[object, ...], tuple[tuple[int, int], Outlook]] = {}
        """The same for all jobs of which the same is known."""

    # what is heard

    def hear(self, job: Job, message: Message, now: float) -> None:
        """A task of the job has said something."""
        self._now = now
        if isinstance(message, StepDone):
            self._hear_step(self._of(job), message, now)
        elif isinstance(message, Transferred):
            carried = self._transfers.hear(job.number, message, now)
            if carried is not None:
                self._notes.append(note_of_transfer(carried))
        elif isinstance(message, Captured):
            live = self._of(job)
            if live.track.note_shape(message, fingerprint(message.shape)):
                self._applications.learn(self._kin(live))
                self._note_progress(live)
        elif isinstance(message, Changed):
            self._of(job).track.note_change(message)
        elif isinstance(message, Saved):
            self._of(job).track.note_saved(message)

    def holds(
        self, job: Job, held: Held | None, now: float, spots: Mapping[str, Spot] | None = None
    ) -> None:
        """What the job runs on from now on; None: nothing.

        `spots`: where its tasks are, so that their transfers tell of links.
        """
        self._now = now
        if held is None and not self._knows(job):
            return
        live = self._of(job)
        self._transfers.place(job.number, (spots or {}) if held is not None else {})
        if held == live.held:
            return
        live.spent = self._spent(live, now)
        if live.held is None and not (job.restarts or job.program.checkpoint_signal):
            live.spent = 0.0  # a plain program begins anew
        live.held, live.since, live.window = held, now, None
        self._note_progress(live)

    def ended(self, job: Job, now: float, succeeded: bool) -> None:
        """The job is over: learn from it, then forget it."""
        live = self._of(job)
        kin, told = self._told(live)
        work = float(live.track.step) if kin.reports else self._spent(live, now)
        self._notes.append(note_of_end(job.number, now))
        if succeeded and work > 0:
            ending = Ending(kin, work)
            self._take_ending(told, ending)
            self._notes.append(note_of(ending, now))
        self._learner.forget(told)
        self._transfers.place(job.number, {})
        del self._live[job.number]

    # what is told

    def progress(self, job: int, now: float | None = None) -> Progress | None:
        """How far a job is (`now`: by the last that was heard of anybody); None: it says nothing."""
        live = self._live.get(job)
        if live is None or not (live.track.reported or live.track.shape):
            return None
        return live.track.progress(self._now if now is None else now)

    def losses(self, job: int, most: int = 200) -> tuple[tuple[int, float], ...]:
        """Steps and their losses, at most so many."""
        live = self._live.get(job)
        return live.track.losses.thinned(most) if live else ()

    def outlooks(self, view: View, now: float) -> dict[int, Outlook]:
        """What is believed of every job of the view."""
        self._now = now
        version = (self._learnt, self._applications.version)
        found: dict[int, Outlook] = {}
        before, self._fresh = self._fresh, {}
        for number, state in view.jobs.items():
            live = self._live.get(number)
            if live is not None:
                found[number] = self._outlook(live, now)
                continue
            kept = before.get(number)
            if kept is None or kept[0] is not state.job or kept[1] != version:
                kept = state.job, version, self._unheard(state.job)
            self._fresh[number] = kept
            found[number] = kept[2]
        return found

    def finish(self, job: int, view: View, now: float) -> float | None:
        """When the job should be done; None where it does not run or nobody knows how long it is."""
        live = self._live.get(job)
        if live is None or live.held is None or job not in view.jobs:
            return None
        kin, told = self._told(live)
        if told.work is None and not self._applications.have_ended(kin.application):
            return None
        outlook = self._outlook(live, now)
        workers = sum(live.held.shape)
        rate = outlook.here or outlook.speed.rate(live.held.device_type, workers)
        return now + outlook.left / rate if rate > 0 else None

    def links(self) -> LinkHistory:
        """What links have carried, over all jobs."""
        return self._transfers.history()

    # what outlives the daemon

    def observations(self) -> list[Note]:
        """What was learnt since this was last asked, to be stored."""
        notes, self._notes = self._notes, []
        return notes

    def restore(self, notes: Iterable[Note]) -> None:
        """Learn again what an earlier daemon has learnt, from notes of `notes.KINDS`, oldest first."""
        endings: list[Ending] = []
        for note in notes:
            shown = shown_of(note)
            if isinstance(shown, Ending):
                endings.append(shown)
            elif shown is not None:
                self._take_showing(_past(shown.kin), shown)
            elif (carried := carried_of(note)) is not None:
                self._transfers.add([carried])
            elif note.kind == PROGRESS and note.key.isdecimal():
                state = state_of(note)
                self._remembered.pop(int(note.key), None)
                if state is not None:
                    self._remembered[int(note.key)] = state
        # Last: lengths are told in the speed that all reports together have shown.
        for ending in endings:
            self._take_ending(_past(ending.kin), ending)

    # inside

    def _knows(self, job: Job) -> bool:
        """Whether anything was ever heard of it, by whichever daemon."""
        return job.number in self._live or job.number in self._remembered

    def _of(self, job: Job) -> Live:
        live = self._live.get(job.number)
        if live is None:
            state = self._remembered.pop(job.number, None)
            live = self._live[job.number] = Live(job) if state is None else Live.restored(job, state)
        elif live.job is not job:
            live.job, live.told = job, None  # reshaped by its user
        return live

    def _hear_step(self, live: Live, done: StepDone, now: float) -> None:
        track, known = live.track, live.track.reported
        if not track.note_step(done, now):
            return
        if not known:
            self._applications.learn(self._kin(live))
        held = live.held
        # A loss or a change under way: what these tasks report is of other devices than are held.
        if held is None or track.workers != sum(held.shape) or done.generation != track.generation:
            return
        if live.window is None or live.window.generation != done.generation:
            live.window = Window(done.generation, track.asynchronous)
        report = live.window.add(done)
        if report is not None:
            self._show(live, held, report, now)

    def _show(self, live: Live, held: Held, report: Report, now: float) -> None:
        kin, told = self._told(live)
        showing = Showing(
            kin,
            held.device_type,
            held.shape,
            report.step,
            report.sync or 0.0,
            float(live.track.step),
            held.batch,
        )
        self._take_showing(told, showing)
        key = (kin.application, held.device_type, held.shape, held.batch, kin.batch)
        if now >= self._noted.get(key, -NOTED_AGAIN) + NOTED_AGAIN:
            self._noted[key] = now
            self._notes.append(note_of(showing, now))
        self._note_progress(live)

    def _note_progress(self, live: Live) -> None:
        self._notes.append(note_of_state(live, self._now))

    def _take_showing(self, told: Job, shown: Showing) -> None:
        held = Held(shown.device_type, shown.workers, shown.told_batch)
        # Alone there is nothing to synchronise, and what was measured of it is of other things.
        sync = shown.sync if sum(shown.workers) > 1 else 0.0
        self._learner.watch(told, held, Report(shown.step, sync), shown.done)
        self._applications.learn(shown.kin)
        self._count(shown.kin)

    def _take_ending(self, told: Job, ending: Ending) -> None:
        self._learner.ended(told, ending.work)
        self._applications.learn(ending.kin)
        self._applications.end(ending.kin)
        self._endings += 1
        self._count(ending.kin)

    def _count(self, kin: Kin) -> None:
        self._learnt += 1
        self._learnt_of[kin.application] = self._learnt_of.get(kin.application, 0) + 1

    def _kin(self, live: Live) -> Kin:
        return self._applications.kin(live.job, live.track)

    def _told(self, live: Live) -> tuple[Kin, Job]:
        track = live.track
        key = (self._applications.version, track.reported, track.shape, track.batch, track.steps)
        if live.told is None or live.told[0] != key:
            kin = self._kin(live)
            live.told = key, kin, as_told(live.job, kin, self._work(live.job, kin, track.steps))
        return live.told[1], live.told[2]

    def _work(self, job: Job, kin: Kin, steps: int) -> float | None:
        """All its work, where the training or the user says so."""
        if kin.reports:
            return float(steps) if steps else job.work
        if job.duration is None:
            return None
        # As long as its user says with the workers of its gang.
        plain = as_told(job, kin, None)
        speed = self._learner.outlook(plain, None, 0.0).speed
        first = next((each for each in job.device_types if each in self._types), self._types[0])
        return job.duration * speed.rate(first, max(1, job.workers.gang))

    def _outlook(self, live: Live, now: float) -> Outlook:
        kin, told = self._told(live)
        if not kin.reports:
            return self._learner.outlook(told, live.held, self._spent(live, now))
        # Started again, it goes on from its checkpoint.
        done = live.track.step if live.held is not None else min(live.track.saved, live.track.step)
        return self._learner.outlook(told, live.held, float(done))

    def _unheard(self, job: Job) -> Outlook:
        """Of a job that has not run; the same for all of which the same is known."""
        kin = self._applications.kin(job)
        if not self._applications.knows(kin):
            kin = Kin(UNKNOWN, UNKNOWN, batch=kin.batch, reports=kin.reports)
        asks = (job.workers.gang, job.workers.most, job.device_types)
        key = (kin.application, kin.batch, job.work, job.duration, asks)
        version = self._learnt_of.get(kin.application, 0), self._endings
        kept = self._alike.get(key)
        if kept is None or kept[0] != version:
            if len(self._alike) > ALIKE:
                self._alike.clear()
            told = as_told(job, kin, self._work(job, kin, 0))
            kept = self._alike[key] = version, self._learner.outlook(told, None, 0.0)
        return kept[1]

    def _spent(self, live: Live, now: float) -> float:
        """Seconds on one device that a job has run by now, at the speed that is believed of it."""
        kin, told = self._told(live)
        if live.held is None or kin.reports:
            return live.spent
        speed = self._learner.outlook(told, None, live.spent).speed
        rate = speed.rate(live.held.device_type, sum(live.held.shape))
        return live.spent + rate * max(0.0, now - live.since)


def _past(kin: Kin) -> Job:
    """Stands for a job of an earlier daemon."""
    role = RoleSpec(Role.WORKER, Need(devices=1), 1, 1, 1)
    return Job("", roles=(role,), application=kin.application, batch=kin.batch)
