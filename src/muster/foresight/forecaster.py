"""Forecasts that learn: the past is followed, and each forecast is held to what came of it."""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace

from muster.foresight.calibrate import Calibration, PastForecast
from muster.foresight.past import Past, PastJob
from muster.foresight.play import WORLDS, JobForecast, Present, foresee
from muster.foresight.quantiles import TimeInterval
from muster.model.view import JobState, View


class Forecaster:
    """Follows views, and forecasts every live job."""

    def __init__(self, worlds: int = WORLDS, seed: int = 0) -> None:
        self._worlds, self._seed = worlds, seed
        self._past = Past()
        self._live: dict[int, bool] = {}
        """Jobs of the last view, and whether each had devices."""
        self._starts, self._finishes = Calibration(), Calibration()
        self.meanwhile: Callable[[], None] | None = None
        """Called between two worlds that are played; None: nobody waits for that."""

    @property
    def past(self) -> Past:
        """What was followed so far."""
        return self._past

    def restore(
        self,
        since: float | None,
        jobs: Iterable[PastJob],
        starts: Iterable[tuple[int, PastForecast]] = (),
        finishes: Iterable[tuple[int, PastForecast]] = (),
    ) -> None:
        """Begin with what was known before: jobs since a moment, and forecasts with their job."""
        self._past.restore(since, jobs)
        for by, told in ((self._starts, starts), (self._finishes, finishes)):
            for job, each in told:
                by.note(job, each)

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
        self._live = {number: state.placement is not None for number, state in view.jobs.items()}

    def ask(self, present: Present) -> dict[int, JobForecast]:
        """Return when each live job starts and ends."""
        return self.both(present)[1]

    def both(self, present: Present) -> tuple[dict[int, JobForecast], dict[int, JobForecast]]:
        """Return the forecasts as played, and as corrected by those before them."""
        jobs = present.view.jobs
        raw = foresee(present, self._past, self._worlds, self._seed, self.meanwhile)
        return raw, {n: self._one(jobs[n], each, present.now) for n, each in raw.items()}

    def _one(self, state: JobState, raw: JobForecast, now: float) -> JobForecast:
        kinds = _kinds(state, raw.jobs)
        finish = _told(self._finishes, state.number, raw.finish, now, kinds)
        start = raw.start
        if start is not None:
            start = _told(self._starts, state.number, start, now, kinds)
        return replace(raw, start=start, finish=finish)


def _told(
    by: Calibration, job: int, raw: TimeInterval, now: float, kinds: tuple[Hashable, ...]
) -> TimeInterval:
    """Return the corrected interval, and keep the raw one to be scored."""
    corrected = by.corrected(raw, now, kinds)
    by.note(job, PastForecast(now, raw, kinds))
    return corrected


def _kinds(state: JobState, alike: int) -> tuple[Hashable, ...]:
    """Return its kinds, the narrowest first: by pool, whether it runs, and what it rests on."""
    kind = state.placement is None, alike > 0
    return (state.job.pool, *kind), kind, ()
