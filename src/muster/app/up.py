"""`muster up`: the store, the door, and behind it the daemon, until a signal comes.

The door opens before the daemon stands: loading the scheduler and the API takes most of a start, and
happens in a thread while the reception answers.
"""

import asyncio
import contextlib
import gc
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import structlog

from muster.api.door.listener import serve
from muster.api.door.reception import Reception
from muster.app.collecting import THRESHOLD
from muster.app.daemon_folder import DaemonStatus, held, write_status
from muster.app.door import Door, limits_of_process
from muster.app.early_status import early_status
from muster.app.entrance import Entrance
from muster.app.log_file import LogLines
from muster.app.managed import Managed, managed_early
from muster.app.options import Listening, UpOptions
from muster.client.connecting.settings import kept_settings, write_settings
from muster.client.errors import ClientError
from muster.daemon.tracing import TRACING
from muster.executors.accounts import own_user
from muster.files.errors import InputError
from muster.store.errors import StoreError
from muster.store.store import Store, open_store
from muster.wire.agents.token_proof import digest
from muster.wire.api.daemon_records import StatusRecord

log = structlog.get_logger()

LOOK = 1.0
"""s between two looks at the claim on the store."""
OWNER = "owner"
"""Name of the token that `muster up` creates for its own user."""
SWITCH = 0.001
"""s after which the cycle's thread yields to the API's: lists answer while it decides."""

Ready = Callable[[Listening], None]


def run(options: UpOptions, ready: Ready) -> None:
    """Run a daemon until SIGTERM or SIGINT; its jobs keep running. `ready` is called when it is."""
    _log_to_stderr(options.log_format, options.log_level, options.data)
    umask = os.umask(0o077)  # whatever the daemon writes is its own
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*THRESHOLD)
    TRACING.begin(os.environ)
    found = managed_early(options)
    try:
        with held(options.data):
            asyncio.run(_serve(options, found, umask, ready))
    except StoreError as error:
        raise InputError(f"up: {error}") from None
    finally:
        TRACING.close()


async def _serve(options: UpOptions, found: Managed | None, umask: int, ready: Ready) -> None:
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
                await _stand_behind(options, found, umask, store, stop, door, ready)


async def _stand_behind(
    options: UpOptions,
    found: Managed | None,
    umask: int,
    store: Store,
    stop: asyncio.Event,
    door: Door,
    ready: Ready,
) -> None:
    """Answer at the door, load the daemon, and run it until `stop`."""
    since = time.time()

    async def status() -> StatusRecord:
        return await asyncio.to_thread(early_status, store, since)

    token_file = _leave_token(options, store, door, since)
    reception = Reception(status, limits_of_process(), door.hosts, time.monotonic)
    serving = asyncio.create_task(serve(reception, door.sockets, stop, tls=door.context))
    announce = partial(_announce, options, ready)
    entrance = Entrance(options, store, door, reception, stop, serving, token_file, announce)
    try:
        standing = await asyncio.to_thread(import_module, "muster.app.standing")
        await standing.stand(entrance, found, umask)
    finally:
        stop.set()
        await serving


def _announce(options: UpOptions, ready: Ready, said: Listening) -> None:
    write_status(options.data, DaemonStatus(os.getpid(), "ready", said))
    ready(said)


async def _take_charge(options: UpOptions, store: Store, stop: asyncio.Event) -> None:
    """Become the one active daemon of the store; wait while another is."""
    standby = False
    while not stop.is_set() and not await asyncio.to_thread(store.claim):
        if not standby:
            standby = True
            log.info("standby: another daemon uses the store")
            write_status(options.data, DaemonStatus(os.getpid(), "standby"))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK):
                await stop.wait()


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
