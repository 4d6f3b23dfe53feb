"""What simulated jobs show about their neighbours: a step each time they get others."""

from collections.abc import Callable, Mapping
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
        self._slowed: dict[int, tuple[tuple[int, ...], Mapping[str, int], float]] = {}
        """By job: the factor below, and what it followed from."""

    def watch(self, now: float, watched: Callable[[float], float]) -> None:
        """Take in jobs that have run long enough beside their neighbours of now."""
        for number, since in list(self._executor.met.items()):
            life = self._executor.lives.get(number)
            if life is None or life.crew is None:
                del self._executor.met[number]
                continue
            step = life.truth.shown(life.crew, life.done).step * life.slowdown
            if not life.is_leaving and now >= max(since, life.resumes) + watched(step):
                del self._executor.met[number]
                self._encounters.add(self._encounter(life, step, now))

    def slowed(self, life: Life) -> float:
        """Return the factor by which neighbours are known to slow a job."""
        there = self._executor.neighbourhood
        if there is None:
            return 1.0
        mine = there.of(life.job.number)
        state = (self._encounters.version, *map(there.changes.__getitem__, mine))
        known = self._slowed.get(life.job.number)
        if known is None or known[0] != state or known[1] is not mine:
            factor = 1.0 + self._encounters.shown(_kind(life), self._rival(life))
            known = self._slowed[life.job.number] = state, mine, factor
        return known[2]

    def all_slowed(self) -> dict[int, float]:
        """Return the same of every job; empty while nothing is beyond doubt."""
        known = self._encounters.slowdowns({}).proven
        lives = self._executor.lives
        for gone in self._slowed.keys() - lives.keys():
            del self._slowed[gone]
        return {n: self.slowed(life) for n, life in lives.items() if life.crew} if known else {}

    def slowdowns(self, view: View) -> Slowdowns:
        """Return what is believed about neighbours."""
        if not self._encounters.slowdowns({}).pairs:
            return self._encounters.slowdowns({})
        kinds = {n: s.job.application for n, s in view.jobs.items() if s.job.application is not None}
        return self._encounters.slowdowns(kinds)

    def _encounter(self, life: Life, step: float, now: float) -> Encounter:
        random = Random(f"{self._seed}/{life.job.name}/beside/{now}")
        assert life.crew is not None and life.placement is not None
        kind = _kind(life)
        setting = setting_of(life.job.number, life.crew, life.placement.nodes())
        step *= random.lognormvariate(0.0, self._noise)
        return Encounter(setting, kind, self._rival(life), step, now)

    def _rival(self, life: Life) -> Rival | None:
        executor = self._executor
        if executor.neighbourhood is None:
            return None
        beside = executor.neighbourhood.beside(life.job.number).items()
        rivals = (Rival(c, _kind(executor.lives[n])) for n, shared in beside for c in shared)
        return self._encounters.worst(_kind(life), rivals)


def _kind(life: Life) -> str:
    return life.job.application or ""
