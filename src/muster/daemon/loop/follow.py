"""How running jobs get on: their list entries, predictions, and how wrong these were."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from muster.daemon.learn.transfers import spots_of
from muster.daemon.loop.job_summaries import Card
from muster.model.cluster import Cluster
from muster.model.event import (
    Migrated,
    NodeLost,
    Preempted,
    Resized,
    StartBegun,
    Started,
    TasksLost,
)
from muster.model.job import Job, Role
from muster.model.task import Fact, TaskEnded, TaskOrdered
from muster.model.view import JobState, Phase
from muster.perf.learnt.learner import Held
from muster.wire.records import PredictionRecord

if TYPE_CHECKING:
    from muster.daemon.loop.loop import Daemon

_CHANGES = (Started, Resized, Migrated, TasksLost, Preempted)

SHIFT = 0.05
"""A predicted finish that moves by less than this part of the time left is not stored anew."""
LEAST = 5.0
"""Nor one that moves by fewer seconds."""


class Follower:
    """Looks at running jobs every few seconds."""

    def __init__(self) -> None:
        self.forgets: list[Callable[[int], None]] = []
        """Who else is told that a job is over."""

    def refresh(self, daemon: "Daemon") -> None:
        """Bring lists and predictions up to date."""
        now = daemon.clock.now()
        for number, card in list(daemon.cards.items()):
            state = daemon.view.jobs[number]
            if state.phase is Phase.WAITING:
                if card.predicted_finish is not None:  # from before it was stopped
                    daemon.cards[number] = replace(card, predicted_finish=None)
                    daemon.touch(number)
                continue
            daemon.touch(number)
            finish = daemon.beliefs.finish(number, daemon.view, now)
            daemon.cards[number] = self._predicted(daemon, state, card, finish, now)
        daemon.metrics.standing(daemon.view, daemon.entitlements)

    def noted(self, daemon: "Daemon", facts: Sequence[Fact]) -> None:
        """Jobs hold other devices from now on: beliefs and metrics learn of it."""
        now = daemon.clock.now()
        for fact in facts:
            if isinstance(fact, TaskOrdered):
                daemon.metrics.task("ordered")
            elif isinstance(fact, TaskEnded):
                daemon.metrics.task("failed" if fact.fault else "lost" if fact.lost else "ended")
            elif isinstance(fact, StartBegun):
                started = daemon.view.jobs.get(fact.job)
                if started is not None:
                    daemon.metrics.waited(fact.at - started.submitted)
            elif isinstance(fact, _CHANGES):
                state = daemon.view.jobs.get(fact.job)
                if state is not None:
                    self.tell_held(daemon, state, now)
            elif isinstance(fact, NodeLost):
                for state in daemon.view.jobs.values():
                    self.tell_held(daemon, state, now)

    def tell_held(self, daemon: "Daemon", state: JobState, now: float) -> None:
        """Beliefs learn what a job runs on."""
        cluster, gang = daemon.view.cluster, daemon.state.gangs.get(state.number)
        tasks = {each.task.name: each.slot.node for each in gang.tasks} if gang else {}
        spots = spots_of(cluster, tasks)
        daemon.beliefs.holds(state.job, held(cluster, state), now, spots)

    def _predicted(
        self, daemon: "Daemon", state: JobState, card: Card, finish: float | None, now: float
    ) -> Card:
        """Return the card with a predicted finish, which is stored if it has moved by enough."""
        card, last = replace(card, predicted_finish=finish), card.last_prediction
        if finish is None:
            return card
        if last is not None and abs(finish - last.predicted) <= max(LEAST, SHIFT * (finish - now)):
            return card
        made = PredictionRecord(now, "finish", finish)
        daemon.predict(state.number, made)
        return replace(card, first_prediction=card.first_prediction or made, last_prediction=made)

    def ended(self, daemon: "Daemon", job: Job, card: Card) -> None:
        """A job is over: what was predicted is held against it."""
        first, end = card.first_prediction, card.ended
        succeeded = card.outcome == "succeeded"
        if first is not None and end is not None and end > first.at and succeeded:
            error = (first.predicted - end) / (end - first.at)
            real = PredictionRecord(first.at, "finish", first.predicted, end, error)
            daemon.predict(job.number, real)
            daemon.metrics.predicted(error)
        daemon.beliefs.ended(job, daemon.clock.now(), succeeded)
        for forget in self.forgets:
            forget(job.number)


def held(cluster: Cluster, state: JobState) -> Held | None:
    """What a job runs on, as far as its speed goes; None while it does not run."""
    if state.placement is None or state.phase in (Phase.WAITING, Phase.STARTING):
        return None
    workers: dict[str, int] = {}
    for slot in state.placement.slots:
        if slot.role is Role.WORKER:
            workers[slot.node] = workers.get(slot.node, 0) + 1
    nodes = sorted(workers, key=lambda name: cluster.index[name])
    kind = cluster.configuration_of(cluster.node(nodes[0]))
    return Held(kind.device_type, tuple(workers[node] for node in nodes), state.batch)
