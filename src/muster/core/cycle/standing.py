"""A view in the form a cycle works with, kept between cycles and updated by difference.

States and nodes are frozen, so comparing identities finds all changes. The result equals a standing
built from scratch (a property test holds that), and a quiet cycle costs only what changed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import compress
from operator import is_not

from muster.core.cycle.option_cache import OptionCache
from muster.core.cycle.plans import Plans
from muster.core.quotas.demand import Demand, capacity, now_and_then
from muster.core.quotas.ledger import Ledger
from muster.core.quotas.quotas import Quotas, Tallies
from muster.model.cluster import Cluster, Node, NodeState, draining
from muster.model.decision import Promise
from muster.model.pool import Entitlements
from muster.model.view import JobState, Phase, View
from muster.place.board import Board
from muster.place.neighbourhood import Neighbourhood
from muster.place.prices import Prices
from muster.place.request import Request
from muster.planner.counts import devices_for

_CHANGING = (Phase.RESIZING, Phase.MIGRATING, Phase.PREEMPTING)


class Standing:
    """What a cycle reads from a view."""

    def __init__(self, view: View) -> None:
        self._begin(view)

    def _begin(self, view: View) -> None:
        self.view = view
        self.options = OptionCache(view.cluster)
        self.board = Board(view.cluster)
        self.ledger = Ledger(view)
        self.available = capacity(view.cluster)
        self.draining = draining(view.cluster)
        self.demand = Demand(view.cluster)
        self.tallies = Tallies(view.pools)
        self.neighbourhood = Neighbourhood(view.cluster)
        self._prices = Prices(self.neighbourhood, view.slowdowns)
        self._sure = Prices(self.neighbourhood, view.slowdowns.without_doubt())
        self._sure_of = view.slowdowns.typical
        self.waiting: dict[int, int] = {}
        """Devices of each waiting job's gang."""
        self.changing: dict[int, JobState] = {}
        """Jobs about to free devices."""
        self.types: dict[int, tuple[str, ...]] = {}
        """Device types of each job that holds some."""
        self.moved: dict[int, tuple[JobState, Request | None]] = {}
        """What running jobs would ask for elsewhere, as worked out for this state (`make_room`)."""
        self.plans = Plans(view.cluster, view.knowledge)
        for state in view.jobs.values():
            self._enter(state)

    def follow(self, view: View) -> None:
        """Update to this view."""
        old = self.view
        if view is old:
            return
        changed = _changed_nodes(old.cluster, view.cluster) if _alike(old, view) else None
        if changed is None or any(_moved(old.cluster, view.cluster, i) for i in changed):
            self._begin(view)
            return
        self.view = view
        if view.knowledge is not self.plans.knowledge:
            self.plans = Plans(view.cluster, view.knowledge)
        self.board.renew(view.cluster, changed)
        self.neighbourhood.cluster = view.cluster
        self.ledger.renew(view, changed)
        if any(_counts_otherwise(old.cluster.nodes[i], view.cluster.nodes[i]) for i in changed):
            self.available = capacity(view.cluster)
            self.draining = draining(view.cluster)
        self._follow_jobs(old.jobs, view.jobs)

    def prices(self) -> Prices:
        """Return what places cost because of the neighbours there."""
        self._prices = self._prices.follow(self.view.slowdowns)
        return self._prices

    def prices_without_doubt(self) -> Prices:
        """Return the same by what was measured often enough to move jobs for it."""
        believed = self.view.slowdowns
        if self._sure_of is not believed.typical:
            self._sure_of = believed.typical
            self._sure = Prices(self.neighbourhood, believed.without_doubt())
        self._sure.slowdowns = replace(self._sure.slowdowns, kinds=believed.kinds)
        return self._sure

    def quotas(self, entitled: Entitlements) -> Quotas:
        """Return the quotas at the start of a cycle."""
        return Quotas(self.view.pools, entitled, self.available, self.tallies.copy())

    def _follow_jobs(self, old: Mapping[int, JobState], new: Mapping[int, JobState]) -> None:
        replaced = map(is_not, map(old.get, new), new.values())
        fresh = list(compress(new.values(), replaced))
        known = sum(state.number in old for state in fresh)
        if len(old) + len(fresh) - known != len(new):
            for number in old.keys() - new.keys():
                self._strike(old[number])
        for state in fresh:
            before = old.get(state.number)
            if before is not None:
                self._strike(before)
            self._enter(state)

    def _enter(self, state: JobState) -> None:
        if state.phase is Phase.WAITING:
            self.waiting[state.number] = devices_for(state.job, state.job.workers.gang)
        elif state.phase in _CHANGING:
            self.changing[state.number] = state
        if state.placement is None and state.target is None:  # it holds nothing and is nowhere
            self.demand.enter(state, 1, {})
            return
        now, then = now_and_then(self.view.cluster, state)
        if state.placement is not None:
            self.types[state.number] = tuple(now)
        self.seat(state)
        self.ledger.enter(state)
        self.tallies.enter(state, 1, now, then)
        self.demand.enter(state, 1, then)

    def seat(self, state: JobState) -> None:
        """Note whose neighbour the job is: at once where it is going to be."""
        self.neighbourhood.put(state.number, state.target or state.placement)

    def _strike(self, state: JobState) -> None:
        self.waiting.pop(state.number, None)
        self.changing.pop(state.number, None)
        self.types.pop(state.number, None)
        self.moved.pop(state.number, None)
        self.neighbourhood.put(state.number, None)
        self.ledger.strike(state)
        now, then = now_and_then(self.view.cluster, state)
        self.tallies.enter(state, -1, now, then)
        self.demand.enter(state, -1, then)

    def demands(self, promises: Iterable[Promise] = ()) -> Mapping[tuple[str, str], int]:
        """Return the devices that each leaf pool's jobs could use, by type."""
        return self.demand.by_pool(self.view, self.available, self._promised(promises))

    def _promised(self, promises: Iterable[Promise]) -> dict[int, str]:
        """Return the device type that each job is promised."""
        cluster, found = self.view.cluster, {}
        for promise in promises:
            nodes = [s.node for s in promise.placement.slots if s.bits and s.node in cluster.index]
            if nodes:
                found[promise.job] = cluster.configuration_of(cluster.node(nodes[0])).device_type
        return found


def _alike(old: View, new: View) -> bool:
    """Whether only free resources, node states and jobs have changed."""
    one, other = old.cluster, new.cluster
    same = one.configurations is other.configurations and one.links is other.links
    return same and old.pools is new.pools and (one.index is other.index or one.index == other.index)


def _changed_nodes(old: Cluster, new: Cluster) -> list[int]:
    if old is new:
        return []
    return list(compress(range(len(new.nodes)), map(is_not, old.nodes, new.nodes)))


def _moved(old: Cluster, new: Cluster, place: int) -> bool:
    """Whether the node is described otherwise: other devices, or another place in the network."""
    one, other = old.nodes[place], new.nodes[place]
    described = (one.configuration, one.rack, one.domain)
    return described != (other.configuration, other.rack, other.domain)


def _counts_otherwise(old: Node, new: Node) -> bool:
    """Whether the node's part of the capacity may have changed: see `capacity`."""
    return old.state is not NodeState.UP or new.state is not NodeState.UP
