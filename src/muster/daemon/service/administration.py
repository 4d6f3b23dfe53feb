"""Requests about nodes, pools, the policy, tokens and the daemon itself."""

import contextlib
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import replace

from muster import __version__
from muster.core.quotas.demand import capacity, demands
from muster.core.quotas.pools import entitle
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.service.draining import leaving
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    NotFoundError,
    RefusedError,
    UnavailableError,
)
from muster.daemon.service.records import node_record, pool_records
from muster.daemon.service.requests import SHARED, Requests, admins_only
from muster.files.snapshot import encode_snapshot
from muster.model.cluster import Node, NodeState
from muster.model.event import NodeDraining, NodeReturned, PoolsSet
from muster.model.pool import ROOT, Pool, PoolError, PoolTree, Quota
from muster.model.task import PolicySet
from muster.model.view import Phase
from muster.policy.registry import POLICIES
from muster.wire.records import NodeRecord, PolicyRecord, PoolRecord, StatusRecord, TokenRecord

ROLES = ("admin", "user")
USED = 60.0
"""s between two records of a token's use."""


class Administration(Requests):
    """Requests that are not about jobs; documented in the protocol."""

    def __init__(self, daemon: Daemon, cluster_name: str) -> None:
        super().__init__(daemon)
        self._cluster, self._began = cluster_name, daemon.clock.now()

    # --- nodes, pools, policy ---

    async def nodes(self, caller: Caller) -> list[NodeRecord]:
        return [self._node(caller, node) for node in self._daemon.view.cluster.nodes]

    async def drain(self, caller: Caller, node: str, within: float | None = None) -> NodeRecord:
        now = self._daemon.clock.now()
        until = None if within is None else now + within
        return await self._turn_node(caller, NodeDraining(node, now, until))

    async def resume(self, caller: Caller, node: str) -> NodeRecord:
        return await self._turn_node(caller, NodeReturned(node, self._daemon.clock.now()))

    async def _turn_node(self, caller: Caller, fact: NodeDraining | NodeReturned) -> NodeRecord:
        admins_only(caller)
        if fact.node not in self._daemon.view.cluster.index:
            raise NotFoundError(f"no node named {fact.node!r}; see: muster node list")
        await self._put(Entry([fact]))
        return self._node(caller, self._daemon.view.cluster.node(fact.node))

    def _node(self, caller: Caller, node: Node) -> NodeRecord:
        view, now = self._daemon.view, self._daemon.clock.now()
        record = node_record(view, node)
        if node.state is not NodeState.DRAINING or not caller.admin:
            return record
        jobs = leaving(view, node, lambda job: self._daemon.beliefs.finish(job, view, now))
        return replace(record, leaving=jobs)

    async def pools(self, caller: Caller) -> list[PoolRecord]:
        view = self._daemon.view
        available = capacity(view.cluster)
        # Not those of the last cycle: none runs while no job is live.
        entitled = entitle(view.pools, available, demands(view, available))
        return pool_records(view, entitled, self._shared)

    async def set_pool(
        self,
        caller: Caller,
        name: str,
        parent: str | None,
        quotas: Mapping[str, Quota],
        shared: bool | None = None,
    ) -> PoolRecord:
        admins_only(caller)
        tree = self._daemon.view.pools
        known = tree.pools.get(name)
        types = self._daemon.view.cluster.device_types()
        for device_type in quotas:
            if device_type not in types:
                raise RefusedError(f"no device of type {device_type!r}; types: {', '.join(types)}")
        above = parent or (known.parent if known else ROOT)
        pool = Pool(name, above, {**(known.quotas if known else {}), **quotas})
        await self._set_pools({**tree.pools, name: pool})
        if shared is not None:
            self._shared = self._shared | {name} if shared else self._shared - {name}
            await self._read(self._store.set_setting, SHARED, "\n".join(sorted(self._shared)))
        return next(each for each in await self.pools(caller) if each.name == name)

    async def remove_pool(self, caller: Caller, name: str) -> None:
        admins_only(caller)
        pools = dict(self._daemon.view.pools.pools)
        if pools.pop(name, None) is None:
            raise NotFoundError(f"no pool named {name!r}; see: muster pool list")
        await self._set_pools(pools)

    async def _set_pools(self, pools: Mapping[str, Pool]) -> None:
        try:
            tree = PoolTree(dict(pools))
        except PoolError as error:
            raise RefusedError(str(error)) from None
        if not tree.leaves():
            raise RefusedError("the last pool cannot be removed: jobs need one")
        self._refuse_overbooked(tree)
        self._admitted.clear()
        await self._put(Entry([PoolsSet(tree, self._daemon.clock.now())]))
        self._admitted.clear()

    def _refuse_overbooked(self, tree: PoolTree) -> None:
        """Reject reservations beyond what the cluster has."""
        over = tree.overbooked(self._daemon.view.cluster.devices_by_type())
        if over is not None:
            device_type, promised, there = over
            raise RefusedError(
                f"pools would reserve {promised} {device_type}, but the cluster has {there}"
            )

    async def policy(self, caller: Caller) -> PolicyRecord:
        name = self._daemon.state.policy
        text = (type(POLICIES[name]).__doc__ or "").strip().partition("\n")[0]
        return PolicyRecord(name, tuple(sorted(POLICIES)), text)

    async def set_policy(self, caller: Caller, name: str) -> PolicyRecord:
        admins_only(caller)
        if name not in POLICIES:
            raise RefusedError(f"no policy named {name!r}; policies: {', '.join(sorted(POLICIES))}")
        entry = Entry([PolicySet(name, self._daemon.clock.now())])
        entry.then.append(lambda: self._daemon.set_policy(name))
        await self._put(entry)
        return await self.policy(caller)

    # --- tokens and the daemon itself ---

    async def tokens(self, caller: Caller) -> list[TokenRecord]:
        found = await self._read(self._store.tokens)
        return [each for each in found if caller.admin or each.user == caller.user]

    async def create_token(self, caller: Caller, name: str, user: str, role: str) -> TokenRecord:
        admins_only(caller)
        if role not in ROLES:
            raise RefusedError(f"no role named {role!r}; roles: {', '.join(ROLES)}")
        if any(each.name == name for each in await self._read(self._store.tokens)):
            raise ConflictError(
                f"a token named {name!r} exists; revoke it first, or choose another name"
            )
        secret, created = secrets.token_urlsafe(32), self._daemon.clock.now()
        await self._read(self._store.add_token, name, user, role, digest(secret), created)
        return TokenRecord(name, user, role, created, secret=secret)

    async def revoke_token(self, caller: Caller, name: str) -> None:
        if name not in [each.name for each in await self.tokens(caller)]:
            raise NotFoundError(f"you have no token named {name!r}; see: muster token list")
        await self._read(self._store.revoke_token, name)

    async def identify(self, secret: str) -> Caller | None:
        known = digest(secret)
        found = await self._read(self._store.token, known)
        if found is None:
            return None
        now = self._daemon.clock.now()
        if found.used is None or now > found.used + USED:
            with contextlib.suppress(UnavailableError):  # a full disk must not lock callers out
                await self._read(self._store.touch_token, known, now)
        return Caller(found.user, found.role == "admin")

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
        )

    async def snapshot(self, caller: Caller) -> bytes:
        admins_only(caller)
        return await self._read(encode_snapshot, self._daemon.cycle_snapshot())

    def metrics(self) -> bytes:
        return self._daemon.metrics.text()


def digest(secret: str) -> str:
    """Hash a secret for the store: with 256 random bits no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()
