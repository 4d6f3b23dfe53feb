"""A simulation that is asked about its future as it goes, and then shows what came."""

from collections.abc import Iterable, Iterator

from muster.core.cycle.cycle import Memory
from muster.foresight.forecaster import Forecaster
from muster.foresight.play import Present
from muster.model.view import JobState, View
from muster.sim.engine import Engine, Setting
from muster.sim.truth import Arrival


class AskedRun:
    """Runs to its end; a forecaster follows it and knows no more than a daemon would."""

    def __init__(self, setting: Setting, arrivals: Iterable[Arrival], forecaster: Forecaster) -> None:
        self._setting, self._forecaster = setting, forecaster
        self._engine = Engine(setting, arrivals)
        self._live: dict[int, JobState] = {}
        self.began: dict[int, float] = {}
        """When each job first started, s."""
        self.ended: dict[int, tuple[JobState, float]] = {}
        """Jobs that have ended, as last seen, and when, s."""

    def presents(self, moments: Iterable[float]) -> Iterator[Present]:
        """Yield the first present from each of these moments on, before what is decided then."""
        due, memory = sorted(moments), Memory()
        for frame in self._engine.frames():
            self._see(frame.before, frame.now)
            if due and frame.now >= due[0]:
                due = [each for each in due if each > frame.now]
                setting = self._setting
                yield Present(frame.before, frame.now, setting.policy, memory, setting.rules)
            memory = frame.decided.memory
            self._see(frame.after, frame.now)
        for life, at in self._engine.ended:
            number = life.job.number
            if number in self._live:
                self.ended.setdefault(number, (self._live[number], at))

    def _see(self, view: View, now: float) -> None:
        for number in self._live.keys() - view.jobs.keys():
            self.ended[number] = self._live[number], now
        self._live = dict(view.jobs)
        for number, state in view.jobs.items():
            if state.placement is not None:
                self.began.setdefault(number, now)
        self._forecaster.follow(view, now)
