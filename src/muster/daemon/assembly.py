"""Puts a daemon together from its parts, and reattaches it to what runs."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from muster.daemon.defrag.defrag_service import DefragService
from muster.daemon.foresight.foresight import LiveForesight
from muster.daemon.gang.perform import Performer
from muster.daemon.learn import KINDS, Beliefs
from muster.daemon.loop.clock import RealClock
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon, Pace
from muster.daemon.loop.recover import ClusterChangedError, load_state, note_ends, reattach
from muster.daemon.loop.state import State
from muster.daemon.metrics import Metrics
from muster.daemon.notify.notifier import Notifier
from muster.daemon.service.governing.trust_requests import SECRET
from muster.daemon.service.submitting.packs import PackShelf
from muster.daemon.tasks.job_secrets import JobSecrets
from muster.daemon.tasks.node_place import NodePlace, place_of
from muster.daemon.tasks.orders import Orders, Surroundings
from muster.daemon.tasks.ports import PortRows
from muster.daemon.tasks.task_messages import TaskMessages, log_protocol_error
from muster.daemon.tasks.task_tls import is_loopback, new_task_tls
from muster.executors.accounts import TOGETHER, Submitters
from muster.executors.environment import PORTS
from muster.executors.packs import PACKS
from muster.model.cluster import Cluster, Node
from muster.model.pool import PoolTree
from muster.model.view import View
from muster.ports import Agents, Executor, NodeGone
from muster.store.store import Store
from muster.wire.agents.join_token import joined_address
from muster.wire.tasks.task_server import TaskServer, TaskTls

if TYPE_CHECKING:
    from muster.executors.fleet.identities import Identities

log = structlog.get_logger()

COORDINATOR = "coordinator"
"""The setting with the port to which tasks report."""
ATTEMPTS, AGAIN = 60, 0.5
"""How often to try to listen, and s in between: another process may release the port."""
OBSERVATIONS = 20_000
"""Notes of past jobs that a daemon starts with."""


class PortTakenError(RuntimeError):
    """Another process listens where the tasks of running jobs expect the daemon."""


@dataclass(frozen=True, slots=True)
class Site:
    """What a daemon manages, and where."""

    cluster: Cluster
    pools: PoolTree
    policy: str
    folder: Path
    """For the jobs' own folders."""
    host: str = "127.0.0.1"
    """The address at which tasks reach the coordinator and each other."""
    submitters: Submitters = TOGETHER
    """Whom tasks run as."""
    caveats: tuple[str, ...] = ()
    """What users might expect and is not so here: limits that are not enforced, users not separated."""
    warning: str = ""
    """What its administrator should know of it."""
    listen: str = ""
    """Address to listen on for tasks; empty: `host`."""
    identities: "Identities | None" = None
    """Of agents; None: there are none."""
    expect: Callable[[Sequence[Node]], None] = lambda nodes: None
    """Called with the nodes of the journal before their agents are listened for."""
    gone: Callable[[NodeGone], None] = lambda news: None
    """Called with a node that an administrator removes."""
    agents: Agents = dict
    """The nodes with agents, and how they are."""
    want: Callable[[View], None] | None = None
    """Called after each cycle, to ask for nodes or give some back."""
    blind: Callable[[], tuple[str, ...]] = tuple
    """The nodes with agents that do not see the daemon's files."""
    busy: Callable[[], Mapping[str, Sequence[float | None]]] = dict
    """How busy the devices of nodes are, 0 to 1, as far as they tell."""
    learn_links: bool = True
    """Whether decisions are made by what links have carried, or by the cluster file alone."""
    planners: int = 1
    """Planners that decide beside each other; more than one are processes of their own."""
    foresight: bool = True
    """Whether the future of live jobs is played, in a process of its own."""


class RunningDaemon:
    """A daemon with its service and its connections to tasks."""

    def __init__(
        self, daemon: Daemon, tasks: TaskServer[int], site: Site, around: Surroundings
    ) -> None:
        self.daemon, self.tasks = daemon, tasks
        name, folder_of = site.cluster.name, around.folder_of
        packs = PackShelf(site.folder.parent / PACKS)
        self.service = DefragService(daemon, name, folder_of, site.submitters, site.caveats, packs)
        self.service.identities, self.service.job_secrets = site.identities, around.secrets
        self.service.gone = site.gone
        self.notifier = self.service.notifier = Notifier(daemon)
        daemon.noted.append(self.service.count_members)
        self.foresight = self.service.foresight = LiveForesight(daemon) if site.foresight else None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start its loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="muster-daemon")
        self.notifier.begin()
        if self.foresight is not None:
            self.foresight.begin()

    async def _run(self) -> None:
        try:
            await self.daemon.run()
        except Exception:
            # Here: who awaits the task a second time gets the error without the place it comes from.
            log.exception("the daemon failed; jobs keep running, and the next one reattaches to them")
            raise

    async def ended(self) -> None:
        """Wait until the daemon ends; raises its error."""
        if self._task is not None:
            await self._task

    async def close(self) -> None:
        """Stop the daemon; tasks keep running."""
        if self.foresight is not None:
            await self.foresight.close()
        await self.notifier.close()
        self.daemon.close()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self.ended()
        finally:
            await self.daemon.closed()
            await self.tasks.close()
            self.daemon.executor.close()


async def open_daemon(
    site: Site, store: Store, executor: Executor, pace: Pace | None = None
) -> RunningDaemon:
    """Fold the journal, listen, reattach to tasks. The store must have been claimed."""
    try:
        state = load_state(store, site.cluster, site.pools, site.policy)
    except ClusterChangedError as error:
        # Its jobs may have ended while no daemon was there to see it.
        previous = await _attached(site, store, executor, error.state, pace)
        await note_ends(previous.daemon)
        await previous.daemon.closed()
        await previous.tasks.close()
        state = load_state(store, site.cluster, site.pools, site.policy)
    return await _attached(site, store, executor, state, pace)


async def _attached(
    site: Site, store: Store, executor: Executor, state: State, pace: Pace | None
) -> RunningDaemon:
    """Return a daemon that continues from this state, attached to the tasks in it."""
    latest = store.changes(None, limit=1)
    clock = RealClock(not_before=latest[-1].fact.at if latest else 0.0)
    cluster = state.view.cluster
    beliefs = Beliefs(cluster.node_devices(), cluster, learn_links=site.learn_links)
    beliefs.restore(note for kind in KINDS for note in store.notes(kind, OBSERVATIONS))
    tasks: TaskServer[int] = TaskServer(
        lambda opening: messages.admit(opening),
        lambda job, message: messages.hear(job, message),
        log_protocol_error,
    )
    around = await _surroundings(
        site,
        store,
        tasks,
        state,
        lambda node: place_of(daemon.view.cluster, node, site.host),
    )
    orders = Orders(around, PortRows(site.folder.parent / "ports", state.gangs))
    loop = asyncio.get_running_loop()
    performer = Performer(
        executor,
        tasks,
        lambda job, task: orders.make(daemon.view.jobs[job], daemon.state.gangs[job], task),
        lambda job, timeout: daemon.post(Entry(events=[(job, timeout)])),
    )
    daemon = Daemon(state, store, executor, clock, beliefs, Metrics(), performer, pace, site.planners)
    daemon.note_exit = orders.note_exit
    messages = TaskMessages(daemon, around)
    for forget in (messages.forget, orders.forget, tasks.drop):
        daemon.follower.forgets.append(forget)

    def wake() -> None:
        loop.call_soon_threadsafe(daemon.wake)

    daemon.agents, daemon.blind = site.agents, site.blind
    daemon.accounts.busy = site.busy
    if site.want is not None:
        daemon.decided.append(site.want)
    site.expect(state.view.cluster.nodes)
    executor.listen(wake)
    reattach(daemon)
    tasks.take_report = messages.take_report
    daemon.noted.append(messages.sweeps.noted)
    messages.sweeps.resume()
    running = RunningDaemon(daemon, tasks, site, around)
    running.service.warning = site.warning
    return running


async def _surroundings(
    site: Site,
    store: Store,
    tasks: TaskServer[int],
    state: State,
    places: Callable[[str], NodePlace],
) -> Surroundings:
    """Listen for tasks, at the port that running ones know."""
    secrets = _job_secrets(store, state)
    known = int(store.setting(COORDINATOR) or 0)
    listen = site.listen or site.host
    tls = None if is_loopback(listen) else new_task_tls()
    port = await _listen(tasks, listen, known, bool(state.gangs), tls)
    if port != known:
        store.set_setting(COORDINATOR, str(port))
    address = f"{'tls://' if tls else ''}{joined_address(site.host, port)}"
    return Surroundings(site.folder, address, secrets, places, submitters=site.submitters)


def _job_secrets(store: Store, state: State) -> JobSecrets:
    known = store.setting(SECRET)
    live = [(state.view.jobs[number], gang) for number, gang in state.gangs.items()]
    secrets = JobSecrets.new() if known is None else JobSecrets.load(known, live)
    if secrets.dump() != known:
        store.set_setting(SECRET, secrets.dump())
    return secrets


async def _listen(
    tasks: TaskServer[int], host: str, known: int, attached: bool, tls: TaskTls | None
) -> int:
    """Listen where running tasks expect it; without any, at any free port."""
    before = [known] if known else []
    ports = before * ATTEMPTS if attached else [*before, *random.sample(PORTS, ATTEMPTS)]
    for port in ports:
        with contextlib.suppress(OSError):
            return await tasks.start(host, port, tls)
        if attached:
            await asyncio.sleep(AGAIN)
    raise PortTakenError(
        f"running tasks report to {host}:{ports[-1]}, but another process listens there; stop it"
    )
