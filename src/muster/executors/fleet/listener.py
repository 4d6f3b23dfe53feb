"""Accepts agents: TLS, and limits on connections that have not proved whose they are."""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from asyncio import sslproto
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from muster.wire.agents.agent_messages import AGENT_LINE
from muster.wire.seldom import SeldomNotes

log = structlog.get_logger()

STRANGERS = 64
"""Connections without a proof at most; more wait in the kernel's queue. Few, so that each handshake is
over long before its time: hundreds at once, on a busy machine, would all be late and start again."""
PER_PEER = 48
"""Of them, from one address, so that it cannot keep the others out."""
HANDSHAKE = 10.0
"""s for TLS."""
TLS_BUFFER = 32 * 1024
"""Bytes that a connection reads at a time: two TLS records. asyncio's own 256 KiB, one buffer for each
connection, would be most of what an agent costs here (of 0.32 MB)."""
sslproto.SSLProtocol.max_size = TLS_BUFFER  # of the whole process: asyncio has no other way

BACKLOG = 4096
KEEPALIVE_IDLE = 30
"""s of silence before TCP probes the other node."""

Serve = Callable[
    [asyncio.StreamReader, asyncio.StreamWriter, Callable[[], None], Callable[[str], None]],
    Awaitable[None],
]


class Listener:
    """Serves each connection in a task of its own; the loop's thread alone."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, serve: Serve) -> None:
        """`serve`: gets a connection, what to call once it has proved itself, and where to note what
        strangers do."""
        self._sock, self._context, self._serve = sock, context, serve
        self._room = asyncio.Semaphore(STRANGERS)
        self._strangers: Counter[str] = Counter()
        self._note = SeldomNotes(lambda text: log.warning("agent port", problem=text))
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Accept connections until cancelled; then end them all."""
        self._sock.listen(BACKLOG)
        self._sock.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._room.acquire()
                try:
                    accepted, peer = await loop.sock_accept(self._sock)
                except OSError as problem:  # for example no more descriptors
                    self._room.release()
                    self._note(f"cannot accept: {problem.strerror}")
                    await asyncio.sleep(0.1)
                    continue
                self._take(accepted, str(peer[0]))
        finally:
            self._sock.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, accepted: socket.socket, peer: str) -> None:
        if self._strangers[peer] >= PER_PEER and not _is_here(peer):
            self._note(f"{peer} has {PER_PEER} connections without a proof; another one was closed")
            accepted.close()
            self._room.release()
            return
        self._strangers[peer] += 1
        task = asyncio.get_running_loop().create_task(self._receive(accepted, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _receive(self, accepted: socket.socket, peer: str) -> None:
        stranger = True

        def proved() -> None:
            nonlocal stranger
            if stranger:
                stranger = False
                self._strangers[peer] -= 1
                if not self._strangers[peer]:
                    del self._strangers[peer]
                self._room.release()

        try:
            reader, writer = await self._secured(accepted)
            await self._serve(reader, writer, proved, self._note)
        except (OSError, ssl.SSLError, EOFError) as problem:
            self._note(f"{peer}: {getattr(problem, 'reason', None) or problem}")
        except Exception:
            log.exception("a connection failed", peer=peer)
        finally:
            proved()

    async def _secured(
        self, accepted: socket.socket
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        with contextlib.suppress(OSError):
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=AGENT_LINE)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._context, ssl_handshake_timeout=HANDSHAKE
            )
        except BaseException:
            accepted.close()
            raise
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _is_here(peer: str) -> bool:
    """Whether an address is this machine's own: nobody is kept out from there who is not here."""
    return ipaddress.ip_address(peer.partition("%")[0]).is_loopback
