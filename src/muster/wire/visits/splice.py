"""Joins two connections: what comes from one goes to the other, until either ends."""

import asyncio
import contextlib
import socket

PIECE = 64 * 2**10
CLOSING = 5.0
"""s for what is on its way when one end has gone."""

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def splice(one: Ends, other: Ends) -> None:
    """Pass bytes on both ways until both ends are closed, or one is and the other has had its time."""
    ways = [
        asyncio.create_task(_pass(one[0], other[1])),
        asyncio.create_task(_pass(other[0], one[1])),
    ]
    try:
        _, left = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        # Closed while the other end sends, a connection is reset, and what it has not read is lost.
        if left:
            await asyncio.wait(left, timeout=CLOSING)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for _, writer in (one, other):
            await close(writer)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:  # TLS cannot be closed one way
            writer.close()


async def turn_away(visitor: socket.socket, words: bytes) -> None:
    """Say this to a visitor, and close once it has: what it is about to say would reset a connection
    closed before, and these words be lost."""
    reader, writer = await ends_of(visitor)
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(CLOSING):
            writer.write(words)
            writer.write_eof()
            while await reader.read(PIECE):
                pass
    await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    """Close a connection once what was written has gone out, or has had its time to."""
    with contextlib.suppress(OSError, TimeoutError):
        writer.close()
        async with asyncio.timeout(CLOSING):
            await writer.wait_closed()
    writer.transport.abort()


async def ends_of(sock: socket.socket) -> Ends:
    """Return a connected socket's reader and writer."""
    sock.setblocking(False)
    return await asyncio.open_connection(sock=sock)
