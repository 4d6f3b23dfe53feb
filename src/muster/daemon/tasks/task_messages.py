"""Passes the messages of tasks on to gangs, beliefs and metrics."""

import hmac

import structlog

from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.tasks.orders import Surroundings
from muster.model.event import Checkpointed
from muster.model.view import Phase
from muster.wire.messages import Changed, Hello, Message, Saved, StepDone, Transferred

SAVES = 30.0
"""Seconds between two checkpoints of a job in the journal, at least."""


class TaskMessages:
    """What a `TaskServer` hears from the tasks of all jobs."""

    def __init__(self, daemon: Daemon, around: Surroundings) -> None:
        self._daemon, self._around = daemon, around
        self._saved: dict[str, float] = {}
        self._changed: dict[str, int] = {}
        """The last formation of each job that was counted."""

    def admit(self, hello: Hello) -> str | None:
        """Return the job of a task with the right token, None for strangers."""
        gang = self._daemon.gangs.get(hello.job)
        if gang is None or hello.task not in gang.tasks:
            return None
        token = self._around.token(hello.job, gang.job.number)
        return hello.job if hmac.compare_digest(hello.token.encode(), token.encode()) else None

    def hear(self, job: str, message: Message) -> None:
        """Handle a message of a job's task."""
        daemon = self._daemon
        gang = daemon.gangs.get(job)
        if gang is None:
            return
        daemon.metrics.heard()
        daemon.beliefs.hear(gang.job, message, daemon.clock.now())
        if isinstance(message, Transferred) or (
            isinstance(message, StepDone) and not gang.step(message)
        ):
            return
        if isinstance(message, Changed):
            self._note_change(job, message)
        elif isinstance(message, Saved):
            self._note_saved(job)
        gang.hear(message)
        daemon.hands_out()

    def _note_change(self, job: str, change: Changed) -> None:
        if change.cause != "start" and change.formation > self._changed.get(job, 0):
            self._changed[job] = change.formation
            self._daemon.metrics.resized(change.pause)

    def _note_saved(self, job: str) -> None:
        now, state = self._daemon.clock.now(), self._daemon.view.jobs.get(job)
        soon = now < self._saved.get(job, 0.0) + SAVES
        if state is None or soon or state.phase in (Phase.WAITING, Phase.STARTING):
            return
        self._saved[job] = now
        self._daemon.post(Entry([Checkpointed(job, state.generation, now)]))

    def forget(self, job: str) -> None:
        """Drop what is kept of a job that has ended."""
        self._saved.pop(job, None)
        self._changed.pop(job, None)


def log_protocol_error(text: str) -> None:
    """Log what a connection did wrong."""
    structlog.get_logger("muster.tasks").warning("protocol error", text=text)
