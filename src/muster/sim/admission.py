"""Reject jobs that could never run on this cluster, and count them by reason."""

from collections import Counter

from muster.core.cycle.options import admission_key
from muster.core.state.admit import refuse
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree
from muster.sim.truth import Arrival


class Admission:
    """One answer for all jobs with equal requests."""

    def __init__(self, cluster: Cluster, pools: PoolTree) -> None:
        self._cluster = cluster
        self._pools = pools
        self._known: dict[tuple[object, ...], str | None] = {}
        self.refused: list[Arrival] = []
        self.why: Counter[str] = Counter()

    def extend(self, cluster: Cluster) -> None:
        """Nodes were added: what could never run before now might."""
        self._cluster = cluster
        self._known.clear()

    def refuse(self, arrival: Arrival, why: str) -> None:
        """Record a job that can never run."""
        self.refused.append(arrival)
        self.why[why] += 1

    def refuses(self, arrival: Arrival) -> bool:
        """Whether the job can never run; if so, record it."""
        key = admission_key(arrival.job)
        if key not in self._known:
            refusal = refuse(arrival.job, self._cluster, self._pools)
            self._known[key] = refusal.why if refusal else None
        why = self._known[key]
        if why is not None:
            self.refuse(arrival, why)
        return why is not None
