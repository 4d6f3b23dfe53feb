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
        lives, there = self._executor.lives, self._executor.neighbourhood
        for gone in self._slowed.keys() - lives.keys():
            del self._slowed[gone]
        if not self._encounters.believed.proven:
            return {}
        running = [n for n, life in lives.items() if life.crew]
        changes = 0 if there is None else sum(there.changes.values())
        state = self._encounters.version, changes, running
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
        executor = self._executor
        if executor.neighbourhood is None:
            return None
        beside = executor.neighbourhood.beside(life.job.number).items()
        rivals = (Rival(c, _kind(executor.lives[n])) for n, shared in beside for c in shared)
        return self._encounters.worst(_kind(life), rivals)


def _kind(life: Life) -> str:
    return life.job.application or ""
