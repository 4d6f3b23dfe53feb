"""Keeps live sweeps going: takes in their members' metrics, and posts what follows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite

from muster.core.sweeps.sweep_state import sweep_of
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.sweeps.steps import Measured, step_facts
from muster.model.event import (
    Cancelled,
    Ended,
    JobReleased,
    PreemptBegun,
    Preempted,
    Requeued,
    StartBegun,
)
from muster.model.sweep import SweepEnded, SweepFact
from muster.model.task import Fact, job_of
from muster.wire.tasks.messages import Report, StepDone

LOSS = "loss"
METRICS = 64
"""Metrics kept of a job: what a table can show, many times over."""
_MOVES = (StartBegun, Preempted, Requeued, Ended, Cancelled, PreemptBegun, JobReleased)
"""What may make room for another member."""


@dataclass(slots=True)
class EpochMean:
    """The mean loss of the epoch that a training is in."""

    epoch: int
    step: int = 0
    total: float = 0.0
    steps: int = 0

    def add(self, done: StepDone) -> None:
        """Add a step; other workers say the same of it."""
        if done.step != self.step:
            self.step, self.total, self.steps = done.step, self.total + done.loss, self.steps + 1


class SweepKeeper:
    """Follows the sweeps of a daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._means: dict[int, EpochMean] = {}

    def resume(self) -> None:
        """Go on with what an earlier daemon has left."""
        for sweep in self._daemon.state.sweeps:
            self._step(sweep)

    def noted(self, facts: Sequence[Fact]) -> None:
        """Take in facts that are in the journal now."""
        sweeps = self._daemon.state.sweeps
        if not sweeps:
            return
        moved: set[int] = set()
        for fact in facts:
            if isinstance(fact, SweepEnded):
                continue
            if isinstance(fact, SweepFact):
                moved.add(fact.sweep if isinstance(fact.sweep, int) else fact.sweep.number)
            elif isinstance(fact, _MOVES) and (found := sweep_of(sweeps, job_of(fact) or 0)):
                moved.add(found[0].sweep.number)
        for number in sorted(moved & sweeps.keys()):
            self._step(number)

    def forget(self, job: int) -> None:
        """Drop what is kept of a job that has ended."""
        self._means.pop(job, None)

    def hear_report(self, job: int, report: Report, answer: Callable[[], None] = lambda: None) -> None:
        """Take in metrics that a script reports; it waits for the answer, which is not given if its
        sweep stops it: so it has done no more than it has reported."""
        summary = self._daemon.summaries.get(job)
        if summary is None:
            return
        known = {name: value for name, value in report.metrics.items() if isfinite(value)}
        metrics = dict(list({**summary.metrics, **known}.items())[:METRICS])
        epochs = report.epoch or (summary.epochs or 0) + 1
        self._daemon.summaries[job] = replace(summary, metrics=metrics, epochs=epochs)
        kept = {name: known[name] for name in known.keys() & metrics.keys()}
        self._daemon.curves.hear_metrics(job, kept, epochs, self._daemon.clock.now())
        if not self._measure(job, epochs, report.metrics, answer):
            answer()

    def hear_step(self, job: int, done: StepDone) -> None:
        """Take in a step of a training: the mean loss of each epoch is a metric."""
        if sweep_of(self._daemon.state.sweeps, job) is None:
            return
        mean = self._means.get(job)
        if mean is not None and done.epoch > mean.epoch and mean.steps:
            self._end_epoch(job, done.epoch, mean)
        if mean is None or done.epoch != mean.epoch:
            mean = self._means[job] = EpochMean(done.epoch)
        mean.add(done)

    def hear_end(self, job: int) -> None:
        """Take in that a training is complete: its last epoch counts."""
        mean = self._means.pop(job, None)
        if mean is not None and mean.steps:
            self._end_epoch(job, mean.epoch + 1, mean)

    def _end_epoch(self, job: int, epochs: int, mean: EpochMean) -> None:
        loss, summary = mean.total / mean.steps, self._daemon.summaries.get(job)
        if summary is not None and isfinite(loss):
            metrics = {**summary.metrics, LOSS: loss}
            self._daemon.summaries[job] = replace(summary, metrics=metrics)
        self._measure(job, epochs, {LOSS: loss})

    def _measure(
        self,
        job: int,
        epochs: int,
        metrics: Mapping[str, float],
        answer: Callable[[], None] = lambda: None,
    ) -> bool:
        """Step on with the sweep of a job if this is its metric, and at a rung; return whether it is.
        `answer` is then called once that has come through, if the job goes on."""
        found = sweep_of(self._daemon.state.sweeps, job)
        asha = None if found is None else found[0].sweep.asha
        if found is None or asha is None or asha.metric not in metrics:
            return False
        state, place = found
        if epochs < asha.epochs(state.next_rung(place)):
            return False
        value = metrics[asha.metric]
        measured = Measured(job, epochs, value if isfinite(value) else None)

        def answer_if_on() -> None:
            after = sweep_of(self._daemon.state.sweeps, job)
            if after is None or not after[0].is_paused(place):
                answer()

        return self._step(state.sweep.number, measured, then=answer_if_on)

    def _step(self, sweep: int, *measured: Measured, then: Callable[[], None] = lambda: None) -> bool:
        """Post what a sweep does next, after these measurements; return whether that is anything."""
        now = self._daemon.clock.now()
        facts = partial(step_facts, sweep=sweep, measured=measured, now=now)
        found = facts(self._daemon.state)
        if found:
            self._daemon.post(Entry(found, current=facts, then=[then], refused=then))
        return bool(found)
