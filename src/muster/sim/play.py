"""Play jobs on a cluster: the real cycle, checked, on a virtual clock, by the jobs' durations."""

from collections.abc import Iterable, Iterator

from muster.core.cycle.cycle_state import Rules
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree
from muster.policy.base import Policy
from muster.sim.engine import Engine, Frame, Setting
from muster.sim.executor import WITHOUT_PROGRESS
from muster.sim.truth import Arrival


def play(
    cluster: Cluster,
    pools: PoolTree,
    arrivals: Iterable[Arrival],
    policy: Policy,
    rules: Rules | None = None,
) -> Iterator[Frame]:
    """Yield a frame per cycle until no job is left, or none left can ever start."""
    setting = Setting(
        cluster,
        pools,
        policy,
        rules or Rules(),
        pauses=WITHOUT_PROGRESS,
        admission=False,
        explain=True,
    )
    return Engine(setting, sorted(arrivals, key=lambda arrival: arrival.at)).frames()
