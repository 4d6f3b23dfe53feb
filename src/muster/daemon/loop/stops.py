"""What stopping a job means for it as it is, as facts."""

from collections.abc import Collection

from muster.daemon.loop.state import State
from muster.model.event import Cancelled, JobHeld, PreemptBegun
from muster.model.sweep import SweepStopped
from muster.model.task import Fact, RequeueAsked, StopAsked
from muster.model.view import Phase


def stopped(state: State, number: int, force: bool, now: float, why: str = "") -> list[Fact]:
    """What a stop means for a job as it is; nothing if it has ended."""
    job, gang = state.view.jobs.get(number), state.gangs.get(number)
    if job is None:
        return []
    asked = StopAsked(number, now, force, why)
    if job.phase is Phase.WAITING and not (gang and gang.tasks):
        return [asked, Cancelled(number, now)]
    return [asked, *preempted(state, asked)]


def stopped_all(state: State, numbers: Collection[int], force: bool, now: float, by: str) -> list[Fact]:
    """What stopping several jobs means; a sweep whose live members are all among them sends no more."""
    found = [fact for number in numbers for fact in stopped(state, number, force, now)]
    for number, sweep in state.sweeps.items():
        jobs = map(sweep.sweep.job_number, range(sweep.entered))
        live = [job for job in jobs if job in state.view.jobs]
        if live and not sweep.stopped and set(live) <= set(numbers):
            found.append(SweepStopped(number, by, now))
    return found


def preempted(state: State, asked: StopAsked | JobHeld | RequeueAsked) -> list[Fact]:
    """Preempt a job with tasks, unless it is stopping already."""
    job = state.view.jobs.get(asked.job)
    if job is None or job.phase in (Phase.WAITING, Phase.PREEMPTING):
        return []
    return [PreemptBegun(asked.job, job.generation, asked.at)]
