"""`muster up`: store, executor, daemon and API in one process, until a signal comes."""

import asyncio
import contextlib
import gc
import getpass
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import structlog

from muster.api.app import create_app
from muster.api.listener import Tls, bound, serve, url_of
from muster.cli.daemon.commands import Listening, UpOptions
from muster.cli.daemon.pid_file import held
from muster.cli.daemon.start import STANDBY as STANDING_BY
from muster.client.errors import ClientError
from muster.client.settings import Settings, read_settings, settings_path, write_settings
from muster.daemon.assembly import House, PortTakenError, Site, open_house
from muster.daemon.loop.loop import Pace
from muster.daemon.loop.recover import ClusterChangedError
from muster.daemon.service.administration import digest
from muster.daemon.service.protocol import Caller
from muster.executors.discover import discover
from muster.executors.local.executor import LocalExecutor
from muster.files.cluster.cluster_file import load_cluster
from muster.files.errors import InputError
from muster.model.cluster import Cluster
from muster.model.pool import PoolTree, single_pool
from muster.store.errors import StoreError
from muster.store.store import Store, open_store

log = structlog.get_logger()

STANDBY = 1.0
"""Seconds between two looks whether the daemon in charge is gone."""
OWNER = "owner"
"""The name of the token that `muster up` makes for its own user."""
FOLDER = "folder"
"""The setting that names the folder of the jobs' tasks."""
RETENTION = 7 * 86400.0
"""Seconds for which logs of finished jobs are kept."""
PRUNED = 3600.0
"""Seconds between two looks for logs that are too old."""
GARBAGE = (7_000, 10, 100)
"""Ten times Python's own: to look through everything stops all threads, for 60 ms at 8,000 jobs, and
finds next to nothing."""
SWITCH = 0.001
"""Seconds after which a cycle's thread lets the API's run: lists answer while it decides."""


def run(options: UpOptions, ready: Callable[[Listening], None]) -> None:
    """Run a daemon until SIGTERM or SIGINT; its jobs go on."""
    _log_to_stderr(options.log_format)
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*GARBAGE)
    site = site_of(options)
    try:
        with held(options.data):
            asyncio.run(_serve(options, site, ready))
    except (ClusterChangedError, PortTakenError, StoreError) as error:
        raise InputError(f"up: {error}") from None


def site_of(options: UpOptions) -> Site:
    """What there is: the cluster of a file, virtual devices, or what the machine has."""
    cluster, pools = _cluster(options)
    return Site(cluster, pools, options.policy, options.data / "jobs")


def _cluster(options: UpOptions) -> tuple[Cluster, PoolTree]:
    if options.cluster is not None:
        loaded = load_cluster(options.cluster)
        return loaded.cluster, loaded.pools
    try:
        cluster = discover(options.devices, topology=options.topology)
    except ValueError as error:
        raise InputError.at("--topology" if options.topology else "--devices", str(error)) from None
    return cluster, single_pool(cluster.devices_by_type())


async def _serve(options: UpOptions, site: Site, ready: Callable[[Listening], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    with contextlib.closing(_store(options)) as store:
        await _take_charge(store, stop)
        if stop.is_set():
            return
        # At once, before anything is begun: a port in use is told while nothing has happened.
        listening = bound(options.host, options.port)
        folder = _folder(options, store)
        executor = LocalExecutor(folder, time.time)
        site = replace(site, folder=folder / "jobs")
        house = await open_house(site, store, executor, Pace(interval=options.interval))
        gc.freeze()  # what there is now stays to the end: it need not be looked through for garbage
        try:
            await _run(options, house, store, executor, listening, stop, ready)
        finally:
            await house.close()


async def _run(
    options: UpOptions,
    house: House,
    store: Store,
    executor: LocalExecutor,
    listening: socket.socket,
    stop: asyncio.Event,
    ready: Callable[[Listening], None],
) -> None:
    tls = Tls(options.tls_cert, options.tls_key) if options.tls_cert else None
    url = url_of(listening, tls)
    token_file = _leave_token(options, store, url, house.daemon.clock.now())
    me = Caller(getpass.getuser(), admin=True)
    app = create_app(house.front, auth=options.auth, anonymous=me)
    house.begin()
    said = _listening(options, house, url, token_file)
    watch = asyncio.create_task(_watch(house, store, executor, stop))
    try:
        await serve(app, listening, stop, tls=tls, ready=lambda: ready(said))
    finally:
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch


async def _watch(house: House, store: Store, executor: LocalExecutor, stop: asyncio.Event) -> None:
    """End when the daemon does, or when another may be in charge; throw old logs away."""
    ended = asyncio.create_task(house.ended())
    pruned = 0.0
    while not stop.is_set():
        done, _ = await asyncio.wait({ended}, timeout=STANDBY)
        if done:
            stop.set()
            await ended
        if not await asyncio.to_thread(store.holds):
            log.error("the claim on the store is lost: another daemon may be in charge")
            os._exit(1)
        now = house.daemon.clock.now()
        if now > pruned + PRUNED:
            pruned = now
            await asyncio.to_thread(executor.prune, now - RETENTION)


async def _take_charge(store: Store, stop: asyncio.Event) -> None:
    """Be the one active daemon of the store; wait as long as another is."""
    told = False
    while not stop.is_set() and not await asyncio.to_thread(store.claim):
        if not told:
            log.info(STANDING_BY)
            told = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), STANDBY)


def _folder(options: UpOptions, store: Store) -> Path:
    """Where the tasks and checkpoints are of the jobs that the store knows: a daemon that takes over
    from one with a folder of its own goes on there, or it would start running jobs a second time."""
    known = store.setting(FOLDER)
    if known is not None and (Path(known) / "tasks").is_dir():
        return Path(known)
    store.set_setting(FOLDER, str(options.data))
    return options.data


def _store(options: UpOptions) -> Store:
    options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    return open_store(options.store or str(options.data / "muster.db"))


def _leave_token(options: UpOptions, store: Store, url: str, now: float) -> Path | None:
    """Let the user's own command line in: the token of before, if it is still good, or a new one."""
    ca = str(options.tls_cert) if options.tls_cert else None
    if not options.auth:
        write_settings(Settings(url, None, ca))
        return None
    token = _known_token(store)
    if token is None:
        token = secrets.token_urlsafe(32)
        store.revoke_token(OWNER)
        store.add_token(OWNER, getpass.getuser(), "admin", digest(token), now)
    return write_settings(Settings(url, token, ca))


def _known_token(store: Store) -> str | None:
    with contextlib.suppress(ClientError):  # a file that cannot be read is written anew
        if settings_path().exists():
            token = read_settings({**os.environ, "MUSTER_URL": "", "MUSTER_API_TOKEN": ""}).token
            if token and store.token(digest(token)) is not None:
                return token
    return None


def _listening(options: UpOptions, house: House, url: str, token_file: Path | None) -> Listening:
    cluster = house.daemon.view.cluster
    counts = cluster.devices_by_type()
    return Listening(
        url=url,
        cluster=cluster.name,
        nodes=len(cluster.nodes),
        devices=sum(counts.values()),
        device_types=tuple(counts),
        policy=house.daemon.state.policy,
        role="active",
        data=options.data,
        token_file=token_file,
        jobs=len(house.daemon.view.jobs),
    )


class _Lines:
    """Writes lines where they can be written: a full disk, on which the log lies as well, must not be
    the end of the daemon."""

    def __init__(self, *_: object) -> None:
        """What is said of the logger is in the lines."""

    def msg(self, line: str) -> None:
        """Write a line."""
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)

    debug = info = warning = error = critical = exception = msg


def _log_to_stderr(form: str) -> None:
    """Structured lines on standard error; standard output is for what is announced."""
    colours = form == "text" and sys.stderr.isatty()
    last = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=colours)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            last,
        ],
        logger_factory=_Lines,
        cache_logger_on_first_use=False,
    )
