"""The jobs that a cycle may start."""

from collections.abc import Collection
from dataclasses import replace

from muster.model.view import Phase, View


def startable(view: View, now: float, barred: Collection[int] = ()) -> View:
    """Return the view without waiting jobs that may not start: those on hold, after a job that has not
    ended, delayed by losses, or barred for lack of a budget."""
    kept = {
        number
        for number, state in view.jobs.items()
        if state.phase is Phase.WAITING and (number in barred or not state.may_start(now))
    }
    if not kept:
        return view
    jobs = {number: state for number, state in view.jobs.items() if number not in kept}
    return replace(view, jobs=jobs)
