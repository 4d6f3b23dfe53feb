"""Requests about nodes, pools, the policy, tokens and the daemon itself."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from muster import __version__
from muster.core.cycle.sections import check_policies
from muster.core.quotas.demand import capacity, demands
from muster.core.quotas.pools import entitle
from muster.daemon.foresight.foresight import LiveForesight
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.service.governing.audit import REFUSED, audited
from muster.daemon.service.governing.draining import Draining
from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.governing.pool_rules import (
    is_open,
    refuse_priority,
    refuse_stranger,
    refuse_unknown,
    refuse_unknown_user,
)
from muster.daemon.service.governing.trust_requests import TrustRequests
from muster.daemon.service.protocol import Caller, ConflictError, NotFoundError, RefusedError
from muster.daemon.service.reading.cluster_map import cluster_map
from muster.daemon.service.reading.records import holdings, node_record, node_tasks, pool_records
from muster.daemon.service.requests import SHARED, admins_only
from muster.daemon.service.submitting.user_limits import EVERYBODY, Limiter, changed_limits
from muster.executors.accounts import TOGETHER, Submitters
from muster.files.errors import one_of
from muster.files.snapshot import encode_snapshot
from muster.model.cluster import Node, NodeState
from muster.model.event import NodeDraining, NodeReturned, PoolsSet
from muster.model.job import Job
from muster.model.pool import DEFAULT_POOL, EVERY_TYPE, Pool, PoolError, PoolTree, Quota
from muster.model.task import PolicySet
from muster.model.view import Phase
from muster.policy.registry import POLICIES, PolicyError
from muster.ports import NodeGone
from muster.wire.api.map_records import ClusterMap
from muster.wire.api.records import ActRecord, NodeRecord, PolicyRecord, PoolRecord, StatusRecord
from muster.wire.api.use_records import LimitRecord

LIMITS = "limits"
"""The setting with the limits of users."""


class Administration(TrustRequests):
    """Requests that are not about jobs; documented in the protocol."""

    def __init__(
        self,
        daemon: Daemon,
        cluster_name: str,
        submitters: Submitters = TOGETHER,
        caveats: tuple[str, ...] = (),
    ) -> None:
        super().__init__(daemon, submitters)
        self._caveats = caveats
        self._cluster, self._began = cluster_name, daemon.clock.now()
        self.warning = ""
        self.gone: Callable[[NodeGone], None] = lambda news: None
        """Called with a node that will not come back."""
        self.foresight: LiveForesight | None = None
        """Plays the future; None: nobody does."""
        self._draining, self._scraping = Draining(), asyncio.Lock()
        live = {number: state.job for number, state in daemon.view.jobs.items()}
        self._limiter = Limiter(self._store.setting(LIMITS), live)
        daemon.follower.forgets.append(self._limiter.leave)
        budgets = daemon.accounts.budgets
        budgets.of_user = lambda user: self._limiter.of(user).device_hours or None
        budgets.of_users = self._limiter.has_budgets
        self._limiter.spent = budgets.used_by_user

    # --- nodes, pools, policy ---

    async def nodes(self, caller: Caller) -> list[NodeRecord]:
        return self._nodes(caller, self._daemon.view.cluster.nodes)

    async def map(self, caller: Caller) -> ClusterMap:
        daemon = self._daemon
        promises = daemon.deciding.memory.promises
        return cluster_map(
            daemon.view, promises, daemon.agents(), lambda job: self._job_name(caller, job) is not None
        )

    async def node(self, caller: Caller, name: str) -> NodeRecord:
        node, view = self._known_node(name), self._daemon.view
        seen = partial(self._job_name, caller)
        tasks = node_tasks(view, self._daemon.state.gangs, name, seen)
        (record,) = self._nodes(caller, (node,))
        return replace(record, tasks=tasks)

    def _known_node(self, name: str) -> Node:
        cluster = self._daemon.view.cluster
        if name not in cluster.index:
            raise NotFoundError(f"no node named {name!r}; see: muster node list")
        return cluster.node(name)

    def _job_name(self, caller: Caller, job: Job) -> str | None:
        """What a list may call a job: its name, with the user if that is another; None: hidden."""
        if job.user == caller.user:
            return job.name
        return job.full_name if caller.admin or job.pool in self._shared else None

    @audited("drain")
    async def drain(self, caller: Caller, node: str, within: float | None = None) -> NodeRecord:
        now = self._daemon.clock.now()
        until = None if within is None else now + within
        return await self._turn_node(
            caller, NodeDraining(node, now, until, f"drained by {caller.user}")
        )

    @audited("resume")
    async def resume(self, caller: Caller, node: str) -> NodeRecord:
        admins_only(caller)
        if self._known_node(node).taken is not None:
            raise ConflictError(
                f"node {node} cannot be resumed: its engine takes it back "
                f"({self._known_node(node).why}); another node comes if jobs need one"
            )
        return await self._turn_node(caller, NodeReturned(node, self._daemon.clock.now()))

    @audited("remove node")
    async def remove_node(self, caller: Caller, node: str) -> None:
        admins_only(caller)
        cluster = self._daemon.view.cluster
        if node not in cluster.index:
            raise NotFoundError(f"no node named {node!r}; see: muster node list")
        if cluster.node(node).offer is None:
            raise RefusedError(f"node {node} is described by the cluster file; remove it there")
        if cluster.node(node).state is not NodeState.LOST:
            raise ConflictError(
                f"node {node} is {cluster.node(node).state}; drain it and stop its agent first"
            )
        self.gone(NodeGone(node, f"removed by {caller.user}"))

    async def _turn_node(self, caller: Caller, fact: NodeDraining | NodeReturned) -> NodeRecord:
        admins_only(caller)
        self._known_node(fact.node)
        await self._put(Entry([fact]))
        (record,) = self._nodes(caller, (self._known_node(fact.node),))
        return record

    def _nodes(self, caller: Caller, nodes: Sequence[Node]) -> list[NodeRecord]:
        beliefs, seen = self._daemon.beliefs, partial(self._job_name, caller)
        view = replace(self._daemon.view, uplinks=beliefs.links().nodes)
        held, agents, links = holdings(view), self._daemon.agents(), beliefs.node_links()
        records = [node_record(view, each, held, seen, agents, links) for each in nodes]
        if not caller.admin:
            return records
        finish = partial(self._daemon.beliefs.finish, view=view, now=self._daemon.clock.now())
        return [
            replace(record, leaving=self._draining.leaving(view, node, finish, seen))
            if node.state is NodeState.DRAINING
            else record
            for node, record in zip(nodes, records, strict=True)
        ]

    async def pools(self, caller: Caller) -> list[PoolRecord]:
        view = self._daemon.view
        available = capacity(view.cluster)
        # Not those of the last cycle: none runs while no job is live.
        entitled = entitle(view.pools, available, demands(view, available))
        found = pool_records(view, entitled, self._shared, self._daemon.state.policy)
        budgets = self._daemon.accounts.budgets
        return [
            each
            if each.budget is None
            else replace(each, budget_used=budgets.used_by_pool(view.pools, each.name))
            for each in found
        ]

    @audited("set pool")
    async def set_pool(
        self,
        caller: Caller,
        name: str,
        parent: str | None,
        quotas: Mapping[str, Quota],
        shared: bool | None = None,
        rules: PoolRules | None = None,
    ) -> PoolRecord:
        admins_only(caller)
        tree = self._daemon.view.pools
        rules = rules or PoolRules()
        pool = self.changed_pool(name, parent, quotas, rules)
        if rules.allow:
            await self._read(refuse_unknown, rules.allow, await self._users())
            for user in (name for name in rules.allow if not name.startswith("@")):
                await self._read(self._refuse_without_account, user)
        await self._set_pools({**tree.pools, name: pool})
        if shared is not None:
            self._shared = self._shared | {name} if shared else self._shared - {name}
            await self._read(self._store.set_setting, SHARED, "\n".join(sorted(self._shared)))
        return next(each for each in await self.pools(caller) if each.name == name)

    def changed_pool(
        self, name: str, parent: str | None, quotas: Mapping[str, Quota], rules: PoolRules
    ) -> Pool:
        """Return a pool as a change would make it; refuse what there is not."""
        known = self._daemon.view.pools.pools.get(name) or Pool(name)
        self._refuse_unknown_types(quotas)
        if rules.policy is not None:
            _refuse_unknown_policy(rules.policy)
        pool = rules.applied(replace(known, parent=parent or known.parent))
        return replace(pool, quotas=_merged(known.quotas, quotas))

    @audited("remove pool")
    async def remove_pool(self, caller: Caller, name: str) -> None:
        admins_only(caller)
        pools = dict(self._daemon.view.pools.pools)
        if pools.pop(name, None) is None:
            raise NotFoundError(f"no pool named {name!r}; see: muster pool list")
        if name == DEFAULT_POOL:
            raise RefusedError(f"pool {name!r} cannot be removed: jobs that name no pool use it")
        await self._set_pools(pools)

    async def _users(self) -> frozenset[str]:
        """The users with tokens."""
        return frozenset(each.user for each in await self._read(self._store.tokens))

    async def check_pool(self, caller: Caller, job: Job) -> None:
        """Refuse a job that its pool does not take from this user, or not with this priority."""
        pools = self._daemon.view.pools
        if not is_open(caller, job, pools):
            await self._read(refuse_stranger, caller, job, pools)  # looks up groups, which may block
        self.check_priority(caller, job, job.priority)

    def check_priority(self, caller: Caller, job: Job, value: int) -> None:
        """Refuse a priority that the job's pool does not allow this caller."""
        refuse_priority(caller, job, value, self._daemon.view.pools)

    # --- limits of users, and what was done ---

    async def limits(self, caller: Caller) -> list[LimitRecord]:
        if caller.admin:
            return self._limiter.records()
        return [self._limiter.record(caller.user)]

    @audited("set limits")
    async def set_limits(
        self, caller: Caller, user: str, given: Mapping[str, int | None] | None
    ) -> LimitRecord:
        admins_only(caller)
        if user != EVERYBODY:
            await self._read(refuse_unknown_user, user, await self._users())
        limits = None if given is None else changed_limits(self._limiter.of(user), given)
        self._limiter.set(user, limits)
        await self._read(self._store.set_setting, LIMITS, self._limiter.stored())
        self._daemon.decide_soon()  # a raised budget lets jobs start
        return self._limiter.record(user)

    async def acts(
        self, caller: Caller, user: str | None = None, since: float = 0.0, limit: int = 100
    ) -> list[ActRecord]:
        admins_only(caller)
        return await self._read(lambda: self._store.acts(user=user, since=since, limit=limit))

    async def failed_login(self, address: str, problem: str) -> None:
        await self.log_refusal(ActRecord(self.now(), "", "log in", "", REFUSED, problem, address))

    async def _set_pools(self, pools: Mapping[str, Pool]) -> None:
        try:
            tree = PoolTree(dict(pools))
        except PoolError as error:
            raise RefusedError(str(error)) from None
        if not tree.leaves():
            raise RefusedError("the last pool cannot be removed: jobs need one")
        self._refuse_overbooked(tree)
        _refuse_bad_policies(tree, self._daemon.state.policy, self._daemon.view.pools)
        self._admitted.clear()
        await self._put(Entry([PoolsSet(tree, self._daemon.clock.now())]))
        self._admitted.clear()

    def _refuse_unknown_types(self, quotas: Mapping[str, Quota]) -> None:
        """Reject quotas of devices that there are not, unless they may still join."""
        cluster = self._daemon.view.cluster
        types = cluster.device_types()
        for device_type in quotas:
            if not cluster.open and device_type not in (*types, EVERY_TYPE):
                raise RefusedError(one_of(device_type, "device type of this cluster", types))

    def _refuse_overbooked(self, tree: PoolTree) -> None:
        """Reject reservations beyond what the cluster has; where nodes may join, parts beyond all."""
        problem = tree.overpromised()
        if problem:
            raise RefusedError(f"pools would {problem}")
        if self._daemon.view.cluster.open:
            return
        over = tree.overbooked(self._daemon.view.cluster.devices_by_type())
        if over is not None:
            device_type, promised, there = over
            raise RefusedError(
                f"pools would reserve {promised} {device_type}, but the cluster has {there}; "
                "lower another pool's reservation first"
            )

    async def policy(self, caller: Caller) -> PolicyRecord:
        name = self._daemon.state.policy
        text = (type(POLICIES[name]).__doc__ or "").strip().partition("\n")[0]
        return PolicyRecord(name, tuple(sorted(POLICIES)), text)

    @audited("set policy")
    async def set_policy(self, caller: Caller, name: str) -> PolicyRecord:
        admins_only(caller)
        _refuse_unknown_policy(name)
        pools = self._daemon.view.pools
        _refuse_bad_policies(pools, name, pools)
        entry = Entry([PolicySet(name, self._daemon.clock.now())])
        entry.then.append(lambda: self._daemon.set_policy(name))
        await self._put(entry)
        return await self.policy(caller)

    # --- the daemon itself ---

    async def status(self) -> StatusRecord:
        daemon, view = self._daemon, self._daemon.view
        free = sum(node.free.bit_count() for node in view.cluster.nodes)
        every = sum(view.cluster.devices_by_type().values())
        waiting = sum(state.phase is Phase.WAITING for state in view.jobs.values())
        return StatusRecord(
            version=__version__,
            cluster=self._cluster,
            role="active",
            since=self._began,
            policy=daemon.state.policy,
            devices=every,
            free=free,
            pending=waiting,
            running=len(view.jobs) - waiting,
            cycles=daemon.cycles,
            last_cycle=daemon.last_cycle,
            trouble=daemon.trouble,
            counts=await self._read(self._store.counts),
            caveats=self._caveats,
            warning=self.warning,
        )

    async def snapshot(self, caller: Caller) -> bytes:
        admins_only(caller)
        return await self._read(encode_snapshot, await self._daemon.cycle_snapshot())

    async def metrics(self) -> bytes:
        async with self._scraping:  # each clears and sets the gauges
            await asyncio.to_thread(self._daemon.follower.gauges())
            return self._daemon.metrics.text()


def _refuse_unknown_policy(name: str) -> None:
    try:
        POLICIES.find(name)
    except PolicyError as error:
        raise RefusedError(str(error)) from None


def _refuse_bad_policies(pools: PoolTree, policy: str, before: PoolTree) -> None:
    """Reject what would leave a pool with an aim that its policy does not have."""
    try:
        check_policies(pools, policy, before)
    except PolicyError as error:
        raise RefusedError(str(error)) from None


def _merged(known: Mapping[str, Quota], given: Mapping[str, Quota]) -> dict[str, Quota]:
    """Return a pool's quotas after a change; one for every type replaces those of single types."""
    before = {} if EVERY_TYPE in given else known
    return {**before, **given}
