"""Forecasts that learn: the past is followed, and each forecast is held to what came of it."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from muster.foresight.calibrate import Calibration
from muster.foresight.effort import WORLDS
from muster.foresight.kept import BEGIN, FINISH, KeptForecast, kinds_of
from muster.foresight.marks import Marks
from muster.foresight.past import Past, PastJob
from muster.foresight.play import JobForecast, Present, as_told, foresee
from muster.model.view import JobState, View


class Forecaster:
    """Follows views, and forecasts every live job."""

    def __init__(self, worlds: int = WORLDS, seed: int = 0) -> None:
        self._worlds, self._seed = worlds, seed
        self._past = Past()
        self._live: dict[int, bool] = {}
        """Jobs of the last view, and whether each had devices."""
        self._starts, self._finishes = Calibration(), Calibration()
        self._marks = Marks()
        self._kept: list[KeptForecast] = []
        self.meanwhile: Callable[[], None] | None = None
        """Called between two worlds that are played; None: nobody waits for that."""

    @property
    def past(self) -> Past:
        """What was followed so far."""
        return self._past

    def restore(
        self, since: float | None, jobs: Iterable[PastJob], kept: Iterable[KeptForecast] = ()
    ) -> None:
        """Begin with what was known before: jobs since a moment, and the forecasts kept of them."""
        self._past.restore(since, jobs)
        for each in kept:
            self._by(each.what).note(each.number, each.as_past)
            if each.came is None or each.what == BEGIN:
                self._marks.restore(each.number, each.mark)

    def follow(self, view: View, now: float, stopped: Collection[int] = ()) -> None:
        """Take in what has happened by now; forecasts that have come true are scored.

        `stopped`: jobs that are gone because somebody stopped them."""
        self._past.follow(view, now, stopped)
        for number, ran in list(self._live.items()):
            state = view.jobs.get(number)
            if number in stopped:
                self._starts.drop(number)
                self._finishes.drop(number)
            if not ran and (state is None or state.placement is not None):
                self._starts.came(number, now)
            if state is None:
                self._finishes.came(number, now)
                self._marks.forget(number)
        self._starts.advance(now)
        self._finishes.advance(now)
        for state in view.jobs.values():
            self._marks.see(state, now)
        self._live = {number: state.placement is not None for number, state in view.jobs.items()}

    def ask(self, present: Present) -> dict[int, JobForecast]:
        """Return when each live job starts and ends."""
        return self.both(present)[1]

    def both(self, present: Present) -> tuple[dict[int, JobForecast], dict[int, JobForecast]]:
        """Return the forecasts as played, and as corrected by those before them."""
        jobs = present.view.jobs
        raw = foresee(present, self._past, self._worlds, self._seed, self.meanwhile)
        due = {
            number: self._marks.due(jobs[number], each)
            for number, each in raw.items()
            if not _is_delayed(jobs[number], each)
        }
        told = {number: self.corrected(jobs[number], each) for number, each in raw.items()}
        for number, mark in due.items():
            if mark is not None:
                self._keep(jobs[number], raw[number], told[number], mark)
        return raw, told

    def corrected(self, state: JobState, raw: JobForecast) -> JobForecast:
        """Return a forecast corrected by those before it, unless a date or a time limit sets it."""
        if _is_delayed(state, raw):
            return raw
        kinds = kinds_of(state.job.pool, self._marks.at(state), raw.jobs)
        start, now = raw.start, raw.made
        finish = raw.finish if raw.limited else self._finishes.corrected(raw.finish, now, kinds)
        if start is not None:
            start = self._starts.corrected(start, now, kinds)
            finish = finish.not_before(start)  # each is corrected by its own
        return as_told(state, replace(raw, start=start, finish=finish))

    def taken(self) -> list[KeptForecast]:
        """Hand out the forecasts to be kept since this was last called."""
        kept, self._kept = self._kept, []
        return kept

    def _keep(self, state: JobState, raw: JobForecast, told: JobForecast, mark: str) -> None:
        """Keep what is said first after a mark, if it rests on anything."""
        found = []
        if told.rests and not told.limited:
            found.append((FINISH, told.finish, raw.finish))
        if told.grounded and told.start is not None and raw.start is not None:
            found.append((BEGIN, told.start, raw.start))
        about = state.job.pool, state.placement is None, raw.jobs
        kept = [
            KeptForecast(state.number, what, mark, raw.made, said, played, *about)
            for what, said, played in found
        ]
        for each in kept:
            self._by(each.what).note(state.number, each.as_past)
        self._kept += kept

    def _by(self, what: str) -> Calibration:
        return self._starts if what == BEGIN else self._finishes


def _is_delayed(state: JobState, forecast: JobForecast) -> bool:
    """Whether a date sets a job's start, not the queue."""
    return state.placement is None and state.not_before > forecast.made
