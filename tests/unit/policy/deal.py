"""Views with outlooks, and what a policy that steers says about them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muster.model.cluster import Cluster
from muster.model.outlook import Outlook, Table
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.view import View
from muster.policy.base import Policy, Shares
from tests.builders import cluster, mixed, node_set
from tests.numbers import by_number, name_of


def devices(count: int) -> Cluster:
    """One node with this many devices of the type A100."""
    return cluster(1, node_set(devices=count, sockets=1, switches=1))


def types(**counts: int) -> Cluster:
    """One node for each type, with this many devices."""
    sets = (
        node_set(name.lower(), device_type=name, devices=count, sockets=1, switches=1)
        for name, count in counts.items()
    )
    return mixed(*((1, each) for each in sets))


def told(seen: View, **outlooks: Outlook) -> View:
    """The view with outlooks by job."""
    return replace(seen, outlooks=by_number(outlooks))


def left(work: float, *rates: float, spread: float = 0.0) -> Outlook:
    """So much work left, and speeds on 1, 2, ... workers."""
    return Outlook(work, Table(rates), spread)


@dataclass(frozen=True, slots=True)
class ByType:
    """Work per s of one worker on each type; more workers, as many times that."""

    rates: Mapping[str, float]

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        return self.rates.get(device_type, 0.0) * workers

    def batch(self, device_type: str, workers: int) -> int | None:
        return 64 * workers


def on(work: float = 1e6, **rates: float) -> Outlook:
    """So much work left, and the speed of one worker on each type."""
    return Outlook(work, ByType(rates))


def everything(seen: View) -> Entitlements:
    """Every pool may have everything."""
    capacity = seen.cluster.devices_by_type()
    entitled = {(pool, each): n for pool in seen.pools.pools for each, n in capacity.items()}
    return Entitlements(entitled, capacity)


def pools(**limits: int) -> PoolTree:
    """Pools with limits on A100s."""
    return PoolTree({name: Pool(name, quotas={"A100": Quota(limit=n)}) for name, n in limits.items()})


def ask(policy: Policy, seen: View, now: float = 0.0, memory: object = None) -> Shares:
    """The policy's answer, asked twice: it must say the same."""
    entitled = everything(seen)
    shares = policy.allocate(seen, entitled, now, memory)
    assert shares == policy.allocate(seen, entitled, now, memory)
    assert shares.steers
    return shares


def workers(policy: Policy, seen: View, now: float = 0.0, memory: object = None) -> dict[str, int]:
    """Workers by job, as the policy says, in the order of the view."""
    answer = ask(policy, seen, now, memory)
    assert all(each.least == each.most for each in answer.allocations)
    dealt = {name_of(each.job): each.most for each in answer.allocations}
    names = [state.job.name for state in seen.jobs.values()]
    return {name: dealt[name] for name in names if name in dealt}
