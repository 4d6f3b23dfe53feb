"""The API on a socket, inside an event loop that has other things to do as well."""

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
"""Connections that may wait to be taken."""

PATIENCE = 5
"""s for requests under way when the daemon ends; each is a matter of milliseconds."""


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of a certificate; `key` None: it is in the same file."""

    certificate: Path
    key: Path | None = None


class _Listener(uvicorn.Server):
    """Leaves signals to the daemon."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def bound(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """A socket for `serve`; OSError at once where the port is taken. Port 0: any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named asyncio turns Nagle's algorithm off; else every answer takes 40 ms more.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        # Only who listens has the port to itself.
        found.listen(BACKLOG)
    except OSError:
        found.close()
        raise
    return found


def url_of(listening: socket.socket, tls: Tls | None = None) -> str:
    """Where a client finds it."""
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
    """Answer on a socket until told to stop; then requests under way end, and streams at once."""
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
    told = asyncio.create_task(stop.wait())
    try:
        await _begun(listener, answering)
        ready()
        await asyncio.wait({answering, told}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        app.state.streams.close()
        listener.should_exit = True
        told.cancel()
        await answering


async def _begun(listener: uvicorn.Server, answering: "asyncio.Task[None]") -> None:
    """Wait until it answers (uvicorn says so by a flag alone), or raise why it never will."""
    while not listener.started:
        if answering.done():
            answering.result()
            raise RuntimeError("the API ended before it began")
        await asyncio.sleep(0.005)
