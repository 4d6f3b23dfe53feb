"""The jobs that a cycle may start."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from muster.model.view import Phase, View


def startable(
    view: View, now: float, barred: Collection[int] = (), delayed: Iterable[int] | None = None
) -> View:
    """Return the view without waiting jobs that may not start: those on hold, after a job that has not
    ended, delayed by losses, or barred for lack of a budget. `delayed`: where all others are known to
    be without a delay of their own, those to look at."""
    looked = view.jobs if delayed is None else {*delayed, *barred}
    kept = {number for number in looked if _is_kept(view, number, now, barred)}
    if not kept:
        return view
    jobs = {number: state for number, state in view.jobs.items() if number not in kept}
    return replace(view, jobs=jobs)


def _is_kept(view: View, number: int, now: float, barred: Collection[int]) -> bool:
    state = view.jobs[number]
    return state.phase is Phase.WAITING and (number in barred or not state.may_start(now))
