"""Follows running jobs: their list entries, their predictions, and how wrong these were."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from muster.daemon.health_guard import HealthGuard
from muster.daemon.learn.transfers import spots_of
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.foretold import finite
from muster.daemon.loop.job_summaries import JobSummary
from muster.foresight.play import JobForecast
from muster.foresight.sessions import is_session, limit_end
from muster.model.cluster import Cluster
from muster.model.event import (
    Migrated,
    NodeLost,
    Preempted,
    Requeued,
    Resized,
    StartBegun,
    Started,
    Submitted,
    TasksLost,
)
from muster.model.job import Job
from muster.model.task import ConvergenceSeen, Fact, RunBroken, TaskEnded, TaskOrdered
from muster.model.view import JobState, Phase
from muster.perf.learnt.held import Held, held_on
from muster.wire.api.records import PredictionRecord, prediction_error

if TYPE_CHECKING:
    from muster.daemon.loop.loop import Daemon

_CHANGES = (Started, Resized, Migrated, TasksLost, Preempted, Requeued)

MIN_SHIFT_RATIO, MIN_SHIFT_SECONDS = 0.05, 5.0
"""A predicted finish is stored again once it has moved by this share of the time left, and by this
many s."""


class Follower:
    """Keeps summaries, beliefs and metrics of a daemon's jobs up to date."""

    def __init__(self, daemon: "Daemon") -> None:
        self._daemon = daemon
        self._guard = HealthGuard()
        self.forecasts: Mapping[int, JobForecast] = {}
        """Of live jobs, as last played."""
        self.forgets: list[Callable[[int], None]] = []
        """Called with each job that has ended."""

    def refresh(self) -> None:
        """Update the predictions of running jobs; drain nodes that are not well."""
        daemon, now = self._daemon, self._daemon.clock.now()
        for number in daemon.state.gangs:  # all that hold devices, or did
            self._refresh(daemon.view.jobs[number], now)
        for fact in self._guard.look(daemon.view.cluster, daemon.agents(), now):
            daemon.post(Entry([fact]))

    def _refresh(self, state: JobState, now: float) -> None:
        daemon, number = self._daemon, state.number
        summary = daemon.summaries[number]
        if state.phase is not Phase.WAITING:
            finish = self._finish(number, now)
            summary = self._followed(number, summary, finish, now)
            daemon.summaries[number] = self._predicted(state, summary, finish, now)
            daemon.touch(number)
        elif summary.predicted_finish is not None:  # from before it was stopped
            daemon.summaries[number] = replace(
                summary, predicted_finish=None, finish_span=None, ending=None
            )
            daemon.touch(number)

    def gauges(self) -> Callable[[], None]:
        """Return what sets the gauges to the present: it looks at all jobs, and may do so in any
        thread."""
        daemon = self._daemon
        summaries, unknown = daemon.summaries, JobSummary()
        return partial(
            daemon.metrics.set_gauges,
            daemon.view,
            daemon.entitlements,
            daemon.agents(),
            daemon.beliefs.node_links(),
            lambda number: summaries.get(number, unknown).code,
        )

    def foretold(self, forecasts: Mapping[int, JobForecast]) -> None:
        """Take in the forecasts of all jobs; the next refresh writes those of running ones."""
        self.forecasts = forecasts

    def _finish(self, number: int, now: float) -> float | None:
        """Return when a job with devices ends: as played, or else if everybody keeps what he has."""
        view = self._daemon.view
        forecast = self.forecasts.get(number)
        if forecast is None:
            state = view.jobs[number]
            limit = limit_end(state, None).middle
            if is_session(state.job):  # ended by whom it serves, unless by its time limit
                return finite(limit)
            believed = self._daemon.beliefs.finish(number, view, now)
            return finite(limit if believed is None else min(believed, limit))
        known = forecast.known_finish
        return None if known is None else known.middle

    def _followed(
        self, number: int, summary: JobSummary, finish: float | None, now: float
    ) -> JobSummary:
        """Return the summary with what its losses say; tell once that they have stopped falling."""
        beliefs = self._daemon.beliefs
        ending = beliefs.ending(number)
        played = number in self.forecasts or finish is None
        span = None if played else beliefs.finish_span(number, finish or now, now)
        if ending is not None and ending.converged and not summary.converged:
            self._daemon.post(Entry([ConvergenceSeen(number, now, ending.converged)]))
        return replace(summary, finish_span=span, ending=ending or summary.ending)

    def noted(self, facts: Sequence[Fact]) -> None:
        """Tell beliefs and metrics about new facts."""
        metrics, jobs = self._daemon.metrics, self._daemon.view.jobs
        for fact in facts:
            if isinstance(fact, Submitted) and fact.job.number in jobs:
                self._daemon.beliefs.meet(jobs[fact.job.number])
            elif isinstance(fact, TaskOrdered):
                metrics.task("ordered")
            elif isinstance(fact, TaskEnded):
                metrics.task("failed" if fact.fault else "lost" if fact.lost else "ended")
            elif isinstance(fact, RunBroken):
                metrics.task("failed" if fact.fault else "lost")
            elif isinstance(fact, StartBegun) and fact.job in jobs:
                metrics.waited(fact.at - jobs[fact.job].submitted)
            elif isinstance(fact, _CHANGES) and fact.job in jobs:
                self.tell_held(jobs[fact.job])
        if any(isinstance(fact, NodeLost) for fact in facts):  # once, however many are lost
            for state in jobs.values():
                self.tell_held(state)

    def tell_held(self, state: JobState) -> None:
        """Tell beliefs which devices a job runs on."""
        daemon, cluster = self._daemon, self._daemon.view.cluster
        gang = daemon.state.gangs.get(state.number)
        spots = spots_of(
            cluster, {each.task.name: each.slot.node for each in gang.tasks} if gang else {}
        )
        now, holds = daemon.clock.now(), held(cluster, state)
        daemon.beliefs.holds(state.job, holds, now, spots, state.started)
        daemon.beliefs.seat(state.job, state.placement if holds is not None else None, cluster, now)

    def _predicted(
        self, state: JobState, summary: JobSummary, finish: float | None, now: float
    ) -> JobSummary:
        """Return the summary with a predicted finish, and store one that has moved far enough."""
        summary, last = replace(summary, predicted_finish=finish), summary.last_prediction
        if finish is None:
            return summary
        least = max(MIN_SHIFT_SECONDS, MIN_SHIFT_RATIO * (finish - now))
        if last is not None and abs(finish - last.predicted) <= least:
            return summary
        made = PredictionRecord(now, "finish", finish)
        self._daemon.predict(state.number, made)
        return replace(summary, first_prediction=summary.first_prediction or made, last_prediction=made)

    def ended(self, job: Job, summary: JobSummary) -> None:
        """Compare the first prediction with the real end, let beliefs learn, forget the job."""
        daemon, first, end = self._daemon, summary.first_prediction, summary.ended
        succeeded = summary.outcome == "succeeded"
        error = prediction_error(first.predicted, end, first.at) if first and end else None
        if first is not None and error is not None and succeeded:
            real = PredictionRecord(first.at, "finish", first.predicted, end, error)
            daemon.predict(job.number, real)
            daemon.metrics.predicted(error)
        daemon.beliefs.ended(job, daemon.clock.now(), succeeded)
        for forget in self.forgets:
            forget(job.number)


def held(cluster: Cluster, state: JobState) -> Held | None:
    """Return what a job runs on, as far as its speed depends on it; None while it does not run."""
    if state.placement is None or state.phase in (Phase.WAITING, Phase.STARTING):
        return None
    return held_on(state.placement, cluster, state.batch)
