"""Accepts connections with TLS, in an event loop; handshakes under way are bounded in number and time.

asyncio's own listener has no bound: whoever connects and says nothing would keep a file open.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from functools import partial

HANDSHAKE_TIMEOUT = 10.0
"""Seconds."""
HANDSHAKES = 256
"""Under way at most; the oldest gives way."""
BACKLOG = 1024
NO_FILES = 0.1
"""Seconds to wait when the process can open no more files."""


class TlsListener:
    """Gives each connection that completed its handshake a protocol of its own."""

    def __init__(
        self, host: str, port: int, context: ssl.SSLContext, make: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=BACKLOG)
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])
        self._context, self._make = context, make
        self._under_way: dict[asyncio.Task[None], None] = {}
        """Handshakes, oldest first."""
        self._loop = asyncio.get_running_loop()
        self._listen()

    async def close(self) -> None:
        """Stop listening, and end handshakes under way."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _listen(self) -> None:
        # Not `sock_accept`: cancelled, it may drop a connection that it has just accepted.
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    def _accept(self) -> None:
        try:
            sock, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError:
            self._loop.remove_reader(self._socket)
            self._loop.call_later(NO_FILES, self._listen)
            return
        sock.setblocking(False)
        if len(self._under_way) >= HANDSHAKES:
            oldest = next(iter(self._under_way))
            self._under_way.pop(oldest)
            oldest.cancel()
        task = self._loop.create_task(self._shake_hands(sock))
        self._under_way[task] = None
        task.add_done_callback(partial(self._done, sock))

    def _done(self, sock: socket.socket, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        if task.cancelled():  # perhaps before it began
            sock.close()

    async def _shake_hands(self, sock: socket.socket) -> None:
        connect = asyncio.get_running_loop().connect_accepted_socket
        # A stranger who does not speak TLS is nobody's concern.
        with contextlib.suppress(OSError):
            await connect(self._make, sock, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_TIMEOUT)
