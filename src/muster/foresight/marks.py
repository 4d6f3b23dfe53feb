"""Moments of a job's life at which its forecast is kept and held to account.

Parts of its run are counted by the forecast itself: nobody knows the end yet.
"""

from dataclasses import dataclass, field

from muster.foresight.play import JobForecast
from muster.model.view import JobState

SUBMISSION, START = "submission", "start"
PARTS = {"25%": 0.25, "50%": 0.5, "75%": 0.75}
MARKS = (SUBMISSION, START, *PARTS)
"""In the order in which a job passes them."""


@dataclass(slots=True)
class Marks:
    """The last mark of each live job."""

    _passed: dict[int, int] = field(default_factory=dict)
    """Place among the marks, by number."""
    _began: dict[int, float] = field(default_factory=dict)
    """When it first started, s."""

    def restore(self, number: int, mark: str) -> None:
        """Take in a mark that was passed before."""
        if mark in MARKS:
            self._passed[number] = max(self._passed.get(number, -1), MARKS.index(mark))

    def see(self, state: JobState, now: float) -> None:
        """Take in a job's state."""
        if state.placement is not None and state.number not in self._began:
            self._began[state.number] = now if state.started is None else state.started

    def due(self, state: JobState, forecast: JobForecast) -> str | None:
        """Return the mark that the job has passed since the last one, if any."""
        place = self._place(state, forecast)
        if place <= self._passed.get(state.number, -1):
            return None
        self._passed[state.number] = place
        return MARKS[place]

    def forget(self, number: int) -> None:
        """Drop what is known of a job that has ended."""
        self._passed.pop(number, None)
        self._began.pop(number, None)

    def _place(self, state: JobState, forecast: JobForecast) -> int:
        began, last = self._began.get(state.number), self._passed.get(state.number, -1)
        if began is None:
            return MARKS.index(SUBMISSION)
        if last < MARKS.index(START):
            return MARKS.index(START)
        done = (forecast.made - began) / max(forecast.finish.middle - began, 1.0)
        passed = [mark for mark, part in PARTS.items() if done >= part]
        return MARKS.index(passed[-1] if passed else START)
