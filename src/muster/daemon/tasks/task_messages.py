"""Passes the messages of tasks on to gangs, beliefs and metrics."""

from collections.abc import Callable

import structlog

from muster.daemon.gang.events import Heard
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.sweeps.keeper import SweepKeeper
from muster.daemon.tasks.orders import Surroundings
from muster.model.event import Checkpointed
from muster.model.view import Phase
from muster.wire.tasks.messages import (
    Changed,
    MembersSilent,
    Message,
    Opening,
    Report,
    Saved,
    StepDone,
    TrainingEnded,
    Transferred,
)

log = structlog.get_logger()

SAVES = 30.0
"""Seconds between two checkpoints of a job in the journal, at least."""


class TaskMessages:
    """What a `TaskServer` hears from the tasks of all jobs."""

    def __init__(self, daemon: Daemon, around: Surroundings) -> None:
        self._daemon, self._around = daemon, around
        self.sweeps = SweepKeeper(daemon)
        self._saved: dict[int, float] = {}
        self._changed: dict[int, int] = {}
        """The last formation of each job that was counted."""

    def admit(self, opening: Opening) -> tuple[int, str] | None:
        """Return the job of a task and its token, None if there is no such task."""
        number = self._daemon.view.names.get(f"{opening.user}/{opening.job}")
        gang = self._daemon.state.gangs.get(number) if number is not None else None
        if number is None or gang is None or gang.task(opening.task) is None:
            return None
        return number, self._around.secrets.token(self._daemon.view.jobs[number], gang)

    def hear(self, job: int, message: Message) -> None:
        """Handle a message of a job's task."""
        daemon = self._daemon
        state = daemon.view.jobs.get(job)
        if state is None:
            return
        daemon.metrics.heard()
        if isinstance(message, Report):
            self.sweeps.hear_report(job, message)
            return
        if isinstance(message, StepDone):
            self.sweeps.hear_step(job, message)
        elif isinstance(message, TrainingEnded) and message.how == "finished":
            self.sweeps.hear_end(job)
        try:
            daemon.beliefs.hear(state.job, message, daemon.clock.now())
        except Exception:  # what one job says must not keep its gang from hearing it
            log.exception("beliefs failed to take in a message", job=job, kind=type(message).__name__)
        # A worker that reports late says nothing new of an earlier step.
        if isinstance(message, StepDone) and message.step == daemon.beliefs.trained(job)[0]:
            daemon.curves.hear_step(job, message.step, message.loss, daemon.clock.now())
        if daemon.beliefs.has_news:
            daemon.decide_soon()
        if isinstance(message, MembersSilent):
            log.warning("members are silent", job=job, told_by=message.task, silent=message.silent)
        if isinstance(message, Changed):
            self._note_change(job, message)
        elif isinstance(message, Saved):
            self._note_saved(job)
        if self._concerns_gang(job, message):
            daemon.post(Entry(events=[(job, Heard(message))]))

    def take_report(self, job: int, report: Report, answer: Callable[[], None]) -> None:
        """Handle metrics of a job's task, which goes on once they are answered."""
        self._daemon.metrics.heard()
        self.sweeps.hear_report(job, report, answer)

    def _concerns_gang(self, job: int, message: Message) -> bool:
        """Whether the gang must react: most messages are steps, and most steps change nothing."""
        if isinstance(message, StepDone):
            sight = self._daemon.sights.get(job)
            return sight is not None and sight.roster.is_news(message)
        return not isinstance(message, Transferred | MembersSilent)

    def _note_change(self, job: int, change: Changed) -> None:
        if change.cause != "start" and change.formation > self._changed.get(job, 0):
            self._changed[job] = change.formation
            self._daemon.metrics.resized(change.pause)

    def _note_saved(self, job: int) -> None:
        now, state = self._daemon.clock.now(), self._daemon.view.jobs.get(job)
        stops = state is not None and state.phase is Phase.PREEMPTING  # the accounts want the last one
        soon = not stops and now < self._saved.get(job, 0.0) + SAVES
        if state is None or soon or state.phase in (Phase.WAITING, Phase.STARTING):
            return
        self._saved[job] = now
        self._daemon.post(Entry([Checkpointed(job, state.generation, now)]))

    def forget(self, job: int) -> None:
        """Drop what is kept of a job that has ended."""
        self.sweeps.forget(job)
        self._daemon.curves.forget(job)
        self._saved.pop(job, None)
        self._changed.pop(job, None)


def log_protocol_error(text: str) -> None:
    """Log what a connection did wrong."""
    structlog.get_logger("muster.tasks").warning("protocol error", text=text)
