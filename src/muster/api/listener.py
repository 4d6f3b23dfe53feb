"""The API on a socket, in an event loop shared with the daemon."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

LOOPBACK = "127.0.0.1"

BACKLOG = 2048

PATIENCE = 5
"""s for requests in progress when the daemon stops; each takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a certificate; `key` None: in the same file."""

    certificate: Path
    key: Path | None = None


class _Listener(uvicorn.Server):
    """Leaves signals to the daemon."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


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


def url_of(listening: socket.socket, tls: Tls | None = None) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{shown}:{port}"


async def serve(
    app: FastAPI,
    listening: socket.socket,
    stop: asyncio.Event,
    *,
    tls: Tls | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until `stop` is set; then finish requests in progress, and end streams at once."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=PATIENCE,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )
    listener = _Listener(config)
    answering = asyncio.create_task(listener.serve([listening]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await _begun(listener, answering)
        ready()
        await asyncio.wait({answering, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
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
