"""Which live jobs are neighbours, and how much longer their steps are for it.

A window of steps counts only if the neighbours were the same all along and had settled: a job that has
its devices but has not stepped yet loads its data, which says nothing about its training.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.daemon.learn.notes import met_of, note_of_met
from muster.model.cluster import Cluster
from muster.model.placement import Placement
from muster.model.slowdowns import Slowdowns
from muster.perf.history.neighbours import Encounter, Encounters, Rival, setting_of
from muster.perf.learnt.held import Held
from muster.place.neighbourhood import Neighbourhood
from muster.store.batch import Note

SETTLED = 60.0
"""s after which a job that reports no steps counts as a neighbour at work."""
NOTED_AGAIN = 600.0
"""Least s between two notes of one situation."""
TOLD = 0.05
"""Least slowdown worth telling: less may be the noise of a busy machine."""


@dataclass(slots=True)
class _Tenant:
    """A job that holds devices."""

    kind: str
    since: float
    stepped: bool = False


class NeighbourWatch:
    """The neighbours of all live jobs, and what their steps show."""

    def __init__(self) -> None:
        self._encounters = Encounters()
        self._neighbourhood: Neighbourhood | None = None
        self._tenants: dict[int, _Tenant] = {}
        self._noted: dict[tuple[str, Rival | None], float] = {}

    def place(
        self, job: int, kind: str, placement: Placement | None, cluster: Cluster, now: float
    ) -> set[int]:
        """Set where a job is, None for nowhere; return the jobs whose neighbours have changed."""
        where = self._neighbourhood = self._neighbourhood or Neighbourhood(cluster)
        where.cluster = cluster
        if (placement.bits() if placement is not None else {}) == where.of(job):
            return set()
        before = self.leave(job)
        if placement is not None:
            where.put(job, placement)
            self._tenants[job] = _Tenant(kind, now)
        return before | set(where.beside(job))

    def leave(self, job: int) -> set[int]:
        """Note that a job is nowhere; return the jobs that were its neighbours."""
        if self._neighbourhood is None:
            return set()
        before = set(self._neighbourhood.beside(job))
        self._neighbourhood.put(job, None)
        self._tenants.pop(job, None)
        return before

    def awaits(self, job: int) -> bool:
        """Whether a job has devices but has not stepped on them."""
        tenant = self._tenants.get(job)
        return tenant is not None and not tenant.stepped

    def stepped(self, job: int, kind: str) -> set[int]:
        """Note that a job trains; return the jobs that have a neighbour at work from now on."""
        self._tenants[job].kind, self._tenants[job].stepped = kind, True
        return set(self._beside(job))

    def hear(self, job: int, held: Held, step: float, now: float) -> Note | None:
        """Take in a job's measured step; return the note to store, if any."""
        tenant = self._tenants.get(job)
        if tenant is None or not self._is_settled(job, now):
            return None
        assert self._neighbourhood is not None
        setting = setting_of(job, held, self._neighbourhood.of(job))
        met = Encounter(setting, tenant.kind, self._rival(job), step, now)
        self._encounters.add(met)
        key = (met.setting, met.beside)
        if now < self._noted.get(key, -NOTED_AGAIN) + NOTED_AGAIN:
            return None
        self._noted[key] = now
        return note_of_met(met)

    def restore(self, note: Note) -> bool:
        """Learn from a note of an earlier daemon; False if it is of another kind."""
        met = met_of(note)
        if met is not None:
            self._encounters.add(met)
        return met is not None

    def slowed(self, job: int) -> float:
        """Return the factor by which neighbours are known to make a job's steps longer."""
        tenant = self._tenants.get(job)
        return 1.0 + (self._encounters.shown(tenant.kind, self._rival(job)) if tenant else 0.0)

    def all_slowed(self) -> dict[int, float]:
        """Return the same of every job; empty while nothing is beyond doubt."""
        known = self._encounters.slowdowns({}).proven
        return {job: self.slowed(job) for job in self._tenants} if known else {}

    def worst(self, job: int, held: Held | None) -> tuple[float, int] | None:
        """Return by how much a job is slowed, and by which neighbour; None if by none that shows."""
        tenant, rival = self._tenants.get(job), self._rival(job)
        if tenant is None or rival is None or held is None or self._neighbourhood is None:
            return None
        setting = setting_of(job, held, self._neighbourhood.of(job))
        seen = self._encounters.seen(setting, rival)
        slowed = self._encounters.shown(tenant.kind, rival) if seen is None else seen
        if slowed < TOLD:
            return None
        return slowed, next(n for n, rivals in self._beside(job).items() if rival in rivals)

    def slowdowns(self, kinds: Mapping[int, str]) -> Slowdowns:
        """Return what is believed, for jobs of these kinds."""
        return self._encounters.slowdowns(kinds)

    @property
    def knows_kinds(self) -> bool:
        """Whether anything is known about particular kinds of jobs."""
        return bool(self._encounters.slowdowns({}).pairs)

    def _is_settled(self, job: int, now: float) -> bool:
        tenants = (self._tenants[each] for each in self._beside(job))
        return all(each.stepped or now >= each.since + SETTLED for each in tenants)

    def _rival(self, job: int) -> Rival | None:
        tenant = self._tenants.get(job)
        rivals = (rival for rivals in self._beside(job).values() for rival in rivals)
        return self._encounters.worst(tenant.kind, rivals) if tenant is not None else None

    def _beside(self, job: int) -> dict[int, tuple[Rival, ...]]:
        """Return a job's neighbours, and each as what could slow it."""
        if self._neighbourhood is None:
            return {}
        return {
            other: tuple(Rival(common, self._tenants[other].kind) for common in shared)
            for other, shared in self._neighbourhood.beside(job).items()
        }
