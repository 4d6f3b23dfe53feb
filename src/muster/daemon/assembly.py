"""A daemon put together from its parts, and taken up where the one before it was."""

import asyncio
import contextlib
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.daemon.gang.perform import Performer
from muster.daemon.learn import KINDS, Beliefs
from muster.daemon.loop.clock import RealClock
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon, Pace
from muster.daemon.loop.recover import load_state, reattach
from muster.daemon.metrics import Metrics
from muster.daemon.service.job_service import Front
from muster.daemon.tasks.orders import VIRTUAL, Orders, Surroundings
from muster.daemon.tasks.task_connections import Wires
from muster.daemon.tasks.task_messages import TaskMessages
from muster.executors.environment import PORTS
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree
from muster.ports import Executor
from muster.store.store import Store

SECRET, COORDINATOR = "secret", "coordinator"
"""Settings: what jobs' tokens are made from, and the port at which their tasks report."""
ATTEMPTS, AGAIN = 60, 0.5
"""How often it is tried to listen, and the seconds between: whoever has the port may let it go."""
OBSERVATIONS = 20_000
"""Notes of what jobs have shown that a daemon begins with."""


class PortTakenError(RuntimeError):
    """Another process listens where the tasks of running jobs expect the daemon."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a daemon is, and what it has."""

    cluster: Cluster
    pools: PoolTree
    policy: str
    folder: Path
    """For the jobs' own folders."""
    host: str = "127.0.0.1"
    """The address at which tasks reach the coordinator, and each other."""
    hosts: Mapping[str, str] | None = None
    """The address of each node; None: all are this machine."""


class House:
    """A daemon with all that is around it: open it, run it, close it."""

    def __init__(self, daemon: Daemon, wires: Wires, cluster: str) -> None:
        self.daemon, self.wires = daemon, wires
        self.front = Front(daemon, cluster)
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Turn after turn from now on."""
        self._task = asyncio.get_running_loop().create_task(self.daemon.run(), name="muster-daemon")

    async def ended(self) -> None:
        """Until the daemon ends, be it by an error."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """End the daemon; the jobs' tasks train on."""
        self.daemon.close()
        with contextlib.suppress(asyncio.CancelledError):
            await self.ended()
        await self.daemon.closed()
        await self.wires.close()
        self.daemon.executor.close()


async def open_house(site: Site, store: Store, executor: Executor, pace: Pace | None = None) -> House:
    """Fold the journal, listen, know the tasks again. The store must have been claimed."""
    state = load_state(store, site.cluster, site.pools, site.policy)
    latest = store.changes(None, limit=1)
    clock = RealClock(not_before=latest[-1].fact.at if latest else 0.0)
    beliefs = Beliefs(state.view.cluster.node_devices())
    beliefs.restore(note for kind in KINDS for note in store.notes(kind, OBSERVATIONS))
    wires = Wires(lambda hello: messages.admit(hello), lambda job, message: messages.hear(job, message))
    around = await _surroundings(site, store, wires, bool(state.gangs))
    orders = Orders(around)
    loop = asyncio.get_running_loop()
    performer = Performer(
        executor,
        wires,
        lambda job, task: orders.make(daemon.view.jobs[job], daemon.state.gangs[job], task),
        lambda job, timeout: daemon.post(Entry(events=[(job, timeout)])),
    )
    daemon = Daemon(state, store, executor, clock, beliefs, Metrics(), performer, pace)
    messages = TaskMessages(daemon, around)
    for forget in (messages.forget, orders.forget, wires.drop):
        daemon.follower.forgets.append(forget)

    def wake() -> None:
        loop.call_soon_threadsafe(daemon.wake)

    executor.listen(wake)
    reattach(daemon)
    return House(daemon, wires, site.cluster.name)


async def _surroundings(site: Site, store: Store, wires: Wires, attached: bool) -> Surroundings:
    """Listen for tasks, at the port they know if there are any."""
    secret = store.setting(SECRET)
    if secret is None:
        secret = secrets.token_hex(32)
        store.set_setting(SECRET, secret)
    known = int(store.setting(COORDINATOR) or 0)
    port = await _listen(wires, site.host, known, attached)
    if port != known:
        store.set_setting(COORDINATOR, str(port))
    cluster = site.cluster
    hosts = site.hosts or {node.name: site.host for node in cluster.nodes}
    virtual = frozenset(
        node.name
        for node in cluster.nodes
        if cluster.configuration_of(node).device_type in (VIRTUAL, "")
    )
    return Surroundings(site.folder, f"{site.host}:{port}", secret, hosts, virtual)


async def _listen(wires: Wires, host: str, known: int, attached: bool) -> int:
    """Listen where the tasks that live expect it; where there are none, wherever one can."""
    before = [known] if known else []
    ports = before * ATTEMPTS if attached else [*before, *random.sample(PORTS, ATTEMPTS)]
    for port in ports:
        with contextlib.suppress(OSError):
            return await wires.start(host, port)
        if attached:
            await asyncio.sleep(AGAIN)
    raise PortTakenError(
        f"tasks of running jobs report at {host}:{ports[-1]}, where another process listens; stop that"
    )
