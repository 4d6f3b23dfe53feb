"""First in, first out, with backfill.

Rule: higher priority first, then older first. A job that does not fit lets younger ones pass; once it
has waited longer than the cycle's patience, devices are promised to it and only jobs that end before
they come free may still pass (EASY backfill: Lifka 1995, "The ANL/IBM SP scheduling system").
"""

from dataclasses import dataclass

from muster.model.pool import Entitlements
from muster.model.view import JobState, Phase, View
from muster.policy.base import Allocation, Shares

_WAITING = Phase.WAITING


@dataclass(frozen=True, slots=True)
class Fifo:
    """A gang for each job in queue order; then growth in the same order."""

    name: str = "fifo"
    informed: bool = False

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate every job's gang, in order of priority and age."""
        # Skip jobs that neither wait nor could grow.
        jobs = view.jobs.values()
        queue = [s for s in jobs if s.phase is _WAITING or s.job.elastic or s.reshaped]
        return Shares(tuple(_allocation(state) for state in sorted(queue, key=_urgency)), memory)


def _urgency(state: JobState) -> tuple[int, float, int]:
    return (-state.job.priority, state.submitted, state.number)


def _allocation(state: JobState) -> Allocation:
    workers = state.job.workers
    return Allocation(state.number, workers.gang, workers.most)


POLICIES = (Fifo(),)
