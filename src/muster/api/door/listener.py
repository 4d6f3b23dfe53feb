"""The API on a socket, in an event loop shared with the daemon."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import uvicorn
from starlette.types import Receive, Scope, Send

from muster.api.door.connections import Connections, accept
from muster.api.door.guarded_protocol import GuardedProtocol
from muster.api.door.limits import Limits
from muster.api.door.peer import Peer, peer_of

LOOPBACK = "127.0.0.1"

BACKLOG = 2048

PATIENCE = 5
"""s for requests in progress when the daemon stops; each takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a certificate; `key` None: in the same file."""

    certificate: Path
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Load them; OSError (SSLError among it) if they cannot be used."""
        found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found.load_cert_chain(self.certificate, self.key)
        return found


class ServedApp(Protocol):
    """An ASGI application whose `state` has `limits`, and `streams` once there may be some."""

    state: Any

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class _Listener(uvicorn.Server):
    """Leaves signals to the daemon, and accepts connections itself: they are bounded in number, and TLS
    is for TCP only."""

    def __init__(self, config: uvicorn.Config, limits: Limits, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self.servers = []
        self._limits, self._tls = limits, tls
        self._connections = Connections(limits.connections, limits.per_peer)
        self._running: set[asyncio.Task[None]] = set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        for each in sockets or ():
            self._keep(accept(each, self._take))
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await super().shutdown(sockets)

    def _take(self, accepted: socket.socket) -> None:
        try:
            peer = peer_of(accepted)
        except OSError:  # it has gone already
            accepted.close()
            return
        if not self._connections.enter(peer):
            accepted.close()
            return
        self._keep(self._connect(accepted, peer))

    async def _connect(self, accepted: socket.socket, peer: Peer) -> None:
        """Hand a connection to the protocol, after the handshake of TLS."""
        secure = None if accepted.family == socket.AF_UNIX else self._tls
        own = asyncio.current_task()
        if (
            own is not None
        ):  # only now: cancelled before its first step it would not let go of the socket
            peer.hang_up = own.cancel
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: GuardedProtocol(
                    self.config, self.server_state, peer, self._limits, self._connections.leave
                ),
                accepted,
                ssl=secure,
                ssl_handshake_timeout=self._limits.head_time if secure else None,
            )
        except OSError:  # it did not speak TLS, or not in time
            self._connections.leave(peer)
        except BaseException:
            self._connections.leave(peer)
            raise

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


def bound(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """Open a socket for `serve`; OSError if the port is taken. Port 0: any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only if the protocol is named; else answers take 40 ms more.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        # Binding alone does not reserve the port.
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    return found


def url_of(listening: socket.socket, *, secure: bool = False) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{shown}:{port}"


async def serve(
    app: ServedApp,
    sockets: Sequence[socket.socket],
    stop: asyncio.Event,
    *,
    tls: ssl.SSLContext | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until `stop` is set; then finish requests in progress, and end streams at once.

    `tls`: for the sockets of TCP.
    """
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # what strangers send must not fill the log
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    listener = _Listener(config, app.state.limits, tls)
    answering = asyncio.create_task(listener.serve(list(sockets)))
    stopping = asyncio.create_task(stop.wait())
    try:
        await _begun(listener, answering)
        ready()
        await asyncio.wait({answering, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if app.state.streams is not None:
            app.state.streams.close()
        listener.should_exit = True
        stopping.cancel()
        await answering


async def _begun(listener: uvicorn.Server, answering: "asyncio.Task[None]") -> None:
    """Wait until it answers (uvicorn only sets a flag), or raise why it cannot."""
    while not listener.started:
        if answering.done():
            answering.result()
            raise RuntimeError("the API ended before it started")
        await asyncio.sleep(0.005)
