"""`muster up`: store, executor, daemon and API in one process, until a signal comes."""

import asyncio
import contextlib
import gc
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from muster.api.app import create_app
from muster.api.door.listener import serve
from muster.app.claimed_devices import missing_devices
from muster.app.daemon_folder import DaemonStatus, held, write_status
from muster.app.door import Door, limits_of_process
from muster.app.log_file import LogLines
from muster.app.options import Listening, UpOptions
from muster.client.errors import ClientError
from muster.client.settings import is_loopback, kept_settings, write_settings
from muster.core.cycle.sections import check_policies
from muster.daemon.assembly import PortTakenError, RunningDaemon, Site, open_daemon
from muster.daemon.loop.loop import Pace
from muster.daemon.loop.recover import ClusterChangedError
from muster.daemon.service.protocol import Caller
from muster.daemon.tracing import TRACING
from muster.executors.accounts import Submitters, own_user
from muster.executors.discover import discover
from muster.executors.gpu_watch import GpuWatch
from muster.executors.local.cgroups import TaskGroups, find_groups
from muster.executors.local.executor import LocalExecutor
from muster.files.cluster.classify import Classifier
from muster.files.cluster.cluster_file import ClusterFile, load_cluster, load_listed
from muster.files.cluster.hardware import VIRTUAL
from muster.files.errors import InputError
from muster.model.cluster import Cluster
from muster.model.pool import single_pool, whole_pool
from muster.policy.registry import PolicyError
from muster.ports import Executor
from muster.store.errors import StoreError
from muster.store.store import Store, open_store
from muster.wire.token_proof import digest

if TYPE_CHECKING:
    from muster.app.engines import RunningEngine

log = structlog.get_logger()

LOOK = 1.0
"""s between two looks at the claim on the store."""
OWNER = "owner"
"""Name of the token that `muster up` creates for its own user."""
FOLDER = "folder"
"""The setting that names the folder of the jobs' tasks."""
RETENTION = 7 * 86400.0
"""s to keep the logs of finished jobs."""
MONTH = 30 * 86400.0
"""s after which curves of jobs are thinned."""
PRUNE_EVERY = 3600.0
"""s between two searches for expired logs."""
GC_THRESHOLD = (7_000, 10, 100)
"""Ten times Python's default: a full collection stops all threads, for 60 ms at 8,000 jobs, and finds
next to nothing."""
SWITCH = 0.001
"""s after which the cycle's thread yields to the API's: lists answer while it decides."""

Ready = Callable[[Listening], None]


def run(options: UpOptions, ready: Ready) -> None:
    """Run a daemon until SIGTERM or SIGINT; its jobs keep running. `ready` is called when it is."""
    _log_to_stderr(options.log_format, options.log_level, options.data)
    umask = os.umask(0o077)  # whatever the daemon writes is its own
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*GC_THRESHOLD)
    TRACING.begin(os.environ)
    loaded = _cluster(options)
    try:
        check_policies(loaded.pools, options.policy)
    except PolicyError as error:
        raise InputError(f"up: {error}") from None
    site = Site(
        loaded.cluster,
        loaded.pools,
        options.policy,
        options.data / "jobs",
        warning=_warning(options, loaded.cluster),
        submitters=submitters_of(options.run_as),
        learn_links=options.learn_links,
        planners=options.planners or loaded.planners,
    )
    watch = _gpu_watch(loaded.cluster, options)
    if watch is not None:
        watch.begin()
        site = replace(site, busy=watch.busy)
    try:
        with held(options.data):
            asyncio.run(_serve(options, site, loaded.classifier, umask, ready))
    except (ClusterChangedError, PortTakenError, StoreError) as error:
        raise InputError(f"up: {error}") from None
    finally:
        TRACING.close()


def _gpu_watch(cluster: Cluster, options: UpOptions) -> GpuWatch | None:
    """Return what reads this machine's GPUs, where they are the cluster; agents read their own."""
    real = VIRTUAL not in cluster.device_types() and not options.simulate_devices
    if options.engine is not None or len(cluster.nodes) != 1 or not real:
        return None
    return GpuWatch(cluster.nodes[0].name)


def _cluster(options: UpOptions) -> ClusterFile:
    """Return the cluster of a file, of virtual devices, of this machine, or of nodes that will join."""
    if options.cluster is not None:
        return load_cluster(options.cluster) if options.engine else load_listed(options.cluster)
    if options.engine is not None:
        from muster.app.engines import open_cluster

        return ClusterFile(open_cluster(options.engine), whole_pool())
    try:
        cluster = discover(options.devices, topology=options.topology)
    except ValueError as error:
        raise InputError.at("--topology" if options.topology else "--devices", str(error)) from None
    return ClusterFile(cluster, single_pool(cluster.devices_by_type()))


def submitters_of(run_as: str | None) -> Submitters:
    """Return whom jobs run as: their submitters if the daemon is root's, unless told otherwise."""
    root = os.geteuid() == 0
    if run_as == "submitter" and not root:
        raise InputError.at("--run-as", "submitter requires a daemon that runs as root")
    return Submitters(own_user(), separate=root and run_as != "daemon")


def _warning(options: UpOptions, cluster: Cluster) -> str:
    """Return what the administrator should know of the cluster file, if anything."""
    if options.cluster is None or options.engine is not None:
        return ""
    return missing_devices(cluster, str(options.cluster), options.simulate_devices)


def executor_for(folder: Path, groups: TaskGroups | None = None, umask: int | None = None) -> Executor:
    """Return the executor that runs tasks with these files; every other kind is chosen here."""
    groups = groups or find_groups(folder)
    return LocalExecutor(folder, time.time, groups=groups, umask=umask)


async def _serve(
    options: UpOptions, site: Site, classifier: Classifier, umask: int, ready: Ready
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.closing(open_store(options.store or str(options.data / "muster.db"))) as store:
        await _take_charge(options, store, stop)
        if not stop.is_set():
            # First of all: a port in use is reported before anything has happened.
            with Door(options) as door:
                ground = _ground(options, site, classifier, store, umask)
                await _run(
                    options, ground, store, stop, door, lambda said: _announce(options, said, ready)
                )


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the daemon stands on."""

    site: Site
    executor: Executor
    engine: "RunningEngine | None" = None


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


async def _run(
    options: UpOptions,
    ground: _Ground,
    store: Store,
    stop: asyncio.Event,
    door: Door,
    ready: Ready,
) -> None:
    executor, engine = ground.executor, ground.engine
    pace = Pace(interval=options.interval)
    running = await open_daemon(ground.site, store, executor, pace)
    gc.enable()
    gc.freeze()  # what exists now lives to the end: no collection needs to look at it
    try:
        said = _listening(options, running, store, door, ground)
        me = Caller(own_user(), admin=True)
        app = create_app(
            running.service,
            limits=limits_of_process(),
            hosts=door.hosts,
            auth=options.auth,
            owner=me,
        )
        running.begin()
        if engine is not None:
            engine.begin()
        watch = asyncio.create_task(_watch(options, running, store, executor, stop))
        try:
            await serve(app, door.sockets, stop, tls=door.context, ready=lambda: ready(said))
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


def _announce(options: UpOptions, said: Listening, ready: Ready) -> None:
    write_status(options.data, DaemonStatus(os.getpid(), "ready", said))
    ready(said)


async def _watch(
    options: UpOptions,
    running: RunningDaemon,
    store: Store,
    executor: Executor,
    stop: asyncio.Event,
) -> None:
    """Stop when the daemon ends or the claim on the store is lost; delete what is too old."""
    ended = asyncio.create_task(running.ended())
    pruned = 0.0
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
            await asyncio.to_thread(executor.prune, now - RETENTION)
            await running.service.prune_packs(now - RETENTION)
            await _forget_old(store, now, options.keep_jobs)


async def _forget_old(store: Store, now: float, keep_jobs: float) -> None:
    """Thin the curves of old jobs and remove the oldest, a few at a time: the journal's writes come in
    between."""
    with contextlib.suppress(StoreError):  # what writes the journal says so
        while await asyncio.to_thread(store.drop_jobs, now - keep_jobs):
            pass
        while await asyncio.to_thread(store.thin_curves, now - MONTH):
            pass


async def _take_charge(options: UpOptions, store: Store, stop: asyncio.Event) -> None:
    """Become the one active daemon of the store; wait while another is."""
    standby = False
    while not stop.is_set() and not await asyncio.to_thread(store.claim):
        if not standby:
            standby = True
            log.info("standby: another daemon uses the store")
            write_status(options.data, DaemonStatus(os.getpid(), "standby"))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), LOOK)


def _folder(options: UpOptions, store: Store) -> Path:
    """Return the folder of the jobs that the store knows: a daemon that takes over from one with
    another folder must continue there, or it would start running jobs a second time."""
    known = store.setting(FOLDER)
    if known is not None and (Path(known) / "logs").is_dir():
        return Path(known)
    store.set_setting(FOLDER, str(options.data))
    return options.data


def _leave_token(options: UpOptions, store: Store, door: Door, now: float) -> Path | None:
    """Let the user's own command line in, with the existing token if it is still valid."""
    if not options.auth:
        write_settings(replace(door.settings(None), data=str(options.data)))
        return None
    token = _known_token(store)
    if token is None:
        token = secrets.token_urlsafe(32)
        store.revoke_token(OWNER)
        store.add_token(OWNER, own_user(), "admin", digest(token), now)
    return write_settings(replace(door.settings(token), data=str(options.data)))


def _known_token(store: Store) -> str | None:
    with contextlib.suppress(ClientError):  # an unreadable file is replaced
        kept = kept_settings()
        if kept and kept.token and store.token(digest(kept.token)) is not None:
            return kept.token
    return None


def _listening(
    options: UpOptions, running: RunningDaemon, store: Store, door: Door, ground: _Ground
) -> Listening:
    daemon = running.daemon
    cluster = daemon.view.cluster
    counts = cluster.devices_by_type()
    token_file = _leave_token(options, store, door, daemon.clock.now())
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


def _log_to_stderr(form: str, level: str, folder: Path) -> None:
    """Log structured lines to standard error; standard output is for announcements."""
    colours = form == "text" and sys.stderr.isatty()
    last = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=colours)
    )
    lines = LogLines(folder)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: lines,
        cache_logger_on_first_use=False,
    )
