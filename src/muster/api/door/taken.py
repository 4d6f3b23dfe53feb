"""A connection that has changed from HTTP to another protocol."""

import asyncio
from collections.abc import Callable

TAKE_OVER = "muster.take_over"
"""Where the scope of a request has what hands its connection over; requests in process have none."""


class TakenConnection:
    """The connection of a request, for its handler alone until it ends."""

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        ended: Callable[[], None],
    ) -> None:
        self._transport, self._loop, self._ended = transport, loop, ended

    def begin(self, protocol: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Answer that the protocol changes, and return the connection."""
        reader = asyncio.StreamReader(loop=self._loop)
        plain = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        head = f"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
        self._transport.write(head.encode("ascii"))
        self._transport.set_protocol(plain)
        plain.connection_made(self._transport)
        return reader, asyncio.StreamWriter(self._transport, plain, reader, self._loop)

    def end(self) -> None:
        """Let HTTP's side of it know that it is over."""
        self._ended()
