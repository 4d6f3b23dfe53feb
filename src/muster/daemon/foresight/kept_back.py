"""Views for the process that plays futures: jobs without a budget start once it renews."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from muster.model.view import JobState, View


class KeptBack:
    """Which jobs no budget is left for, and until when; nobody foresees that one is raised."""

    def __init__(self) -> None:
        self._barred: Collection[int] = ()
        self._until = 0.0
        self._delayed: Mapping[int, tuple[JobState, JobState]] = {}
        """As they are and as they are shown: the same again, so that it is sent once."""

    def bar(self, barred: Collection[int], until: float) -> None:
        """Take in the jobs that may not start before a moment, in s."""
        if until != self._until:
            self._delayed = {}
        self._barred, self._until = barred, until

    def shown(self, view: View) -> View:
        """Return the view with those jobs delayed."""
        barred = {number: state for number in self._barred if (state := view.jobs.get(number))}
        self._delayed = {number: self._late(number, state) for number, state in barred.items()}
        if not barred:
            return view
        late = {number: delayed for number, (_, delayed) in self._delayed.items()}
        return replace(view, jobs={**view.jobs, **late})

    def _late(self, number: int, state: JobState) -> tuple[JobState, JobState]:
        known = self._delayed.get(number)
        if known is not None and known[0] is state:
            return known
        return state, replace(state, not_before=max(state.not_before, self._until))
