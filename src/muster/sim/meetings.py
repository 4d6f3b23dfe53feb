"""What simulated jobs show about their neighbours: a step each time they get others."""

from collections.abc import Callable
from random import Random

from muster.model.slowdowns import Slowdowns
from muster.model.view import View
from muster.perf.history.neighbours import Encounter, Encounters, Rival, setting_of
from muster.sim.executor import VirtualExecutor
from muster.sim.life import Life


class Meetings:
    """Learns from the steps of jobs with new neighbours, measured with noise."""

    def __init__(self, executor: VirtualExecutor, seed: int, noise: float) -> None:
        self._executor = executor
        self._seed = seed
        self._noise = noise
        self._encounters = Encounters()
        self._slowed: dict[int, tuple[tuple[int, int], float]] = {}
        """By job: the factor below, and what it followed from."""
        self._all_slowed: tuple[object, dict[int, float]] = None, {}
        """The same of all jobs."""
        self._believed: tuple[int, Slowdowns] = -1, Slowdowns()
        """The last answer of `slowdowns`, and the version that it followed from."""

    def watch(self, now: float, watched: Callable[[float], float]) -> None:
        """Take in jobs that have run long enough beside their neighbours of now."""
        for number, since in list(self._executor.met.items()):
            life = self._executor.lives.get(number)
            if life is None or life.crew is None:
                del self._executor.met[number]
                continue
            if life.is_leaving or now < since or now < life.resumes:
                continue
            step = life.truth.shown(life.crew, life.done).step * life.slowdown
            if now >= max(since, life.resumes) + watched(step):
                del self._executor.met[number]
                self._encounters.add(self._encounter(life, step, now))

    def slowed(self, life: Life) -> float:
        """Return the factor by which neighbours are known to slow a job."""
        state = self._encounters.version, self._executor.company.changed(life.job.number)
        known = self._slowed.get(life.job.number)
        if known is None or known[0] != state:
            factor = 1.0 + self._encounters.shown(_kind(life), self._rival(life))
            known = self._slowed[life.job.number] = state, factor
        return known[1]

    def all_slowed(self) -> dict[int, float]:
        """Return the same of every job; empty while nothing is beyond doubt."""
        lives = self._executor.lives
        for gone in self._slowed.keys() - lives.keys():
            del self._slowed[gone]
        if not self._encounters.believed.proven:
            return {}
        running = [n for n, life in lives.items() if life.crew]
        state = self._encounters.version, self._executor.company.changes, running
        if self._all_slowed[0] != state:
            self._all_slowed = state, {n: self.slowed(lives[n]) for n in running}
        return self._all_slowed[1]

    def slowdowns(self, view: View) -> Slowdowns:
        """Return what is believed about neighbours."""
        version = self._encounters.version
        if not self._encounters.believed.pairs:
            return self._encounters.believed
        kinds = {n: s.job.application for n, s in view.jobs.items() if s.job.application is not None}
        before, known = self._believed
        if before != version or known.kinds != kinds:
            self._believed = version, self._encounters.slowdowns(kinds)
        return self._believed[1]

    def _encounter(self, life: Life, step: float, now: float) -> Encounter:
        random = Random(f"{self._seed}/{life.job.name}/beside/{now}")
        assert life.crew is not None and life.placement is not None
        kind = _kind(life)
        setting = setting_of(life.job.number, life.crew, life.placement.nodes())
        step *= random.lognormvariate(0.0, self._noise)
        return Encounter(setting, kind, self._rival(life), step, now)

    def _rival(self, life: Life) -> Rival | None:
        number, there = life.job.number, self._executor.neighbourhood
        worst = self._encounters.all_worst(_kind(life), self._executor.company.of(number))
        if len(worst) < 2 or there is None:
            return worst[0] if worst else None
        lives, beside = self._executor.lives, there.beside(number).items()
        every = (Rival(common, _kind(lives[n])) for n, shared in beside for common in shared)
        return next(each for each in every if each in worst)  # the first by node


def _kind(life: Life) -> str:
    return life.job.application or ""
