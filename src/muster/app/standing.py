"""The daemon itself, loaded once its door is open: executor, state, API, and what watches them."""

import asyncio
import contextlib
import gc
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from muster.api.app import create_app
from muster.app.collecting import look_at_all, set_aside
from muster.app.entrance import Entrance
from muster.app.managed import Managed, managed
from muster.app.options import Listening, UpOptions
from muster.client.connecting.settings import is_loopback
from muster.daemon.assembly import PortTakenError, RunningDaemon, Site, open_daemon
from muster.daemon.loop.loop import Pace
from muster.daemon.loop.recover import ClusterChangedError
from muster.daemon.service.protocol import Caller
from muster.executors.accounts import own_user
from muster.executors.gpu_watch import GpuWatch
from muster.executors.local.cgroups import TaskGroups, find_groups
from muster.executors.local.executor import LocalExecutor
from muster.files.cluster.classify import Classifier
from muster.files.cluster.hardware import VIRTUAL
from muster.files.errors import InputError
from muster.model.cluster import Cluster
from muster.ports import Executor
from muster.store.errors import StoreError
from muster.store.store import Store

if TYPE_CHECKING:
    from muster.app.engines import RunningEngine

log = structlog.get_logger()

LOOK = 1.0
"""s between two looks at the claim on the store."""
FOLDER = "folder"
"""The setting that names the folder of the jobs' tasks."""
RETENTION = 7 * 86400.0
"""s to keep the logs of finished jobs."""
MONTH = 30 * 86400.0
"""s after which curves of jobs are thinned."""
LOOK_AT_ALL_EVERY = 3600.0
"""s between two looks for cycles among all objects: each stops all threads for a tenth of a second."""
PRUNE_EVERY = 3600.0
"""s between two searches for expired logs."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the daemon stands on."""

    site: Site
    executor: Executor
    engine: "RunningEngine | None" = None


async def stand(entrance: Entrance, found: Managed | None, umask: int) -> None:
    """Run the daemon behind its entrance until that no longer serves."""
    options, store, door = entrance.options, entrance.store, entrance.door
    ground = _ground_of(options, found or managed(options), store, umask)
    executor, engine = ground.executor, ground.engine
    try:
        running = await open_daemon(ground.site, store, executor, Pace(interval=options.interval))
    except (ClusterChangedError, PortTakenError) as error:
        raise InputError(f"up: {error}") from None
    gc.enable()
    set_aside()  # what exists now lives to the end
    running.daemon.saved.append(set_aside)
    try:
        said = _listening(entrance, running, ground)
        app = create_app(
            running.service,
            limits=entrance.reception.state.limits,
            hosts=door.hosts,
            auth=options.auth,
            owner=Caller(own_user(), admin=True),
        )
        running.begin()
        if engine is not None:
            engine.begin()
        watch = asyncio.create_task(_watch(options, running, store, executor, entrance.stop))
        try:
            entrance.reception.open(app)
            entrance.announce(said)
            await asyncio.shield(entrance.serving)
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch
    finally:
        try:
            await running.close()
        finally:
            if engine is not None:  # now that no task is ordered any more
                engine.close()


def _ground_of(options: UpOptions, found: Managed, store: Store, umask: int) -> _Ground:
    """Return the site that was asked for, and what its tasks run on."""
    site = Site(
        found.cluster,
        found.pools,
        options.policy,
        options.data / "jobs",
        warning=found.warning,
        submitters=found.submitters,
        learn_links=options.learn_links,
        planners=options.planners or found.planners,
    )
    watch = _gpu_watch(found.cluster, options)
    if watch is not None:
        watch.begin()
        site = replace(site, busy=watch.busy)
    return _ground(options, site, found.classifier or Classifier(), store, umask)


def executor_for(folder: Path, groups: TaskGroups | None = None, umask: int | None = None) -> Executor:
    """Return the executor that runs tasks with these files; every other kind is chosen here."""
    groups = groups or find_groups(folder)
    return LocalExecutor(folder, time.time, groups=groups, umask=umask)


def _ground(
    options: UpOptions, site: Site, classifier: Classifier, store: Store, umask: int
) -> _Ground:
    """Return the executor that was asked for, and the site with what it brings along."""
    folder = _folder(options, store)
    engine = _engine(options, store, folder, classifier)
    groups = find_groups(folder) if engine is None else None
    executor = engine.executor if engine else executor_for(folder, groups, umask)
    said = (groups.caveat if groups else "", site.submitters.caveat)
    caveats = tuple(each for each in said if each)
    for caveat in caveats:
        log.warning(caveat)
    site = replace(site, folder=folder / "jobs", caveats=caveats)
    return _Ground(engine.equip(site, options) if engine else site, executor, engine)


def _engine(
    options: UpOptions, store: Store, folder: Path, classifier: Classifier
) -> "RunningEngine | None":
    if options.engine is None:
        return None
    # Imported only now: it needs cryptography, which a daemon of one machine does not.
    from muster.app.engines import open_engine

    return open_engine(options, store, folder, classifier)


async def _watch(
    options: UpOptions,
    running: RunningDaemon,
    store: Store,
    executor: Executor,
    stop: asyncio.Event,
) -> None:
    """Stop when the daemon ends or the claim on the store is lost; delete what is too old."""
    ended = asyncio.create_task(running.ended())
    pruned, looked = 0.0, running.daemon.clock.now()
    while not stop.is_set():
        done, _ = await asyncio.wait({ended}, timeout=LOOK)
        if done:
            stop.set()
            await ended
        if not await asyncio.to_thread(store.holds):
            log.error("lost the claim on the store: another daemon may be active")
            os._exit(1)
        now = running.daemon.clock.now()
        if now > pruned + PRUNE_EVERY:
            pruned = now
            await _clean_up(options, running, store, executor, now)
        if now > looked + LOOK_AT_ALL_EVERY:  # not at the start, when everybody waits for the daemon
            looked = now
            look_at_all()


async def _clean_up(
    options: UpOptions, running: RunningDaemon, store: Store, executor: Executor, now: float
) -> None:
    """Delete what is too old."""
    try:
        await asyncio.to_thread(executor.prune, now - RETENTION)
        await running.service.prune_packs(now - RETENTION)
        await _forget_old(store, now, options.keep_jobs)
    except Exception:  # the watch over the claim and the daemon must go on
        log.exception("could not delete what is too old; tried again later", seconds=PRUNE_EVERY)


async def _forget_old(store: Store, now: float, keep_jobs: float) -> None:
    """Thin the curves of old jobs and remove the oldest, a few at a time: the journal's writes come in
    between."""
    with contextlib.suppress(StoreError):  # what writes the journal says so
        while await asyncio.to_thread(store.drop_jobs, now - keep_jobs):
            pass
        while await asyncio.to_thread(store.thin_curves, now - MONTH):
            pass


def _folder(options: UpOptions, store: Store) -> Path:
    """Return the folder of the jobs that the store knows: a daemon that takes over from one with
    another folder must continue there, or it would start running jobs a second time."""
    known = store.setting(FOLDER)
    if known is not None and (Path(known) / "logs").is_dir():
        return Path(known)
    store.set_setting(FOLDER, str(options.data))
    return options.data


def _listening(entrance: Entrance, running: RunningDaemon, ground: _Ground) -> Listening:
    options, door, token_file = entrance.options, entrance.door, entrance.token_file
    daemon = running.daemon
    cluster = daemon.view.cluster
    counts = cluster.devices_by_type()
    return Listening(
        url=door.url,
        cluster=cluster.name,
        nodes=len(cluster.nodes),
        devices=sum(counts.values()),
        device_types=tuple(counts),
        policy=daemon.state.policy,
        data=str(options.data),
        token_file=None if token_file is None else str(token_file),
        jobs=len(daemon.view.jobs),
        caveats=ground.site.caveats,
        socket=str(door.path),
        elsewhere=door.elsewhere(),
        warnings=_warnings(options, running.service.warning),
        join=ground.engine.join_line() if ground.engine else None,
    )


def _warnings(options: UpOptions, warning: str) -> tuple[str, ...]:
    """Return what to print beside the announcement."""
    plain = options.tls_cert is None and not options.tls and not is_loopback(options.host)
    unencrypted = "without TLS everyone on the network can read tokens and jobs" if plain else ""
    anyone = (
        "" if options.auth else f"without tokens every user of this machine runs code as {own_user()}"
    )
    return tuple(filter(None, (warning, unencrypted, anyone)))


def _gpu_watch(cluster: Cluster, options: UpOptions) -> GpuWatch | None:
    """Return what reads this machine's GPUs, where they are the cluster; agents read their own."""
    real = VIRTUAL not in cluster.device_types() and not options.simulate_devices
    if options.engine is not None or len(cluster.nodes) != 1 or not real:
        return None
    return GpuWatch(cluster.nodes[0].name)
