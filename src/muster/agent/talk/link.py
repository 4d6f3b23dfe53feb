"""One connection to the daemon: messages as lines over TLS."""

import asyncio
import socket
import ssl

from muster.wire.agents.agent_codec import FROM_AGENT, TO_AGENT
from muster.wire.agents.agent_messages import DAEMON_LINE, FromAgent, ToAgent
from muster.wire.agents.join_token import split_address
from muster.wire.tasks.codec import BadMessageError

CONNECT_TIMEOUT = 10.0
"""s to connect and prove each other's identity."""


class Connection:
    """Sends to and receives from one daemon."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @property
    def own_address(self) -> str:
        """The address of this machine from which the daemon was reached."""
        return str(self._writer.get_extra_info("sockname")[0]).partition("%")[0]

    @property
    def backlog(self) -> int:
        """Bytes that the network has not taken yet."""
        return self._writer.transport.get_write_buffer_size()

    def send(self, *messages: FromAgent) -> None:
        """Send messages; a broken connection is found out by whoever receives."""
        self._writer.write(b"".join(FROM_AGENT.encode(message) for message in messages))

    async def receive(self, timeout: float) -> ToAgent:
        """Return the next message; `ConnectionError` if the connection has ended or is silent."""
        try:
            async with asyncio.timeout(timeout):
                line = await self._reader.readline()
        except TimeoutError:
            raise ConnectionError(f"the daemon has been silent for {timeout:.0f} s") from None
        except ValueError:
            raise ConnectionError(f"a line of more than {DAEMON_LINE} bytes") from None
        if not line.endswith(b"\n"):
            raise ConnectionError("the daemon has closed the connection")
        try:
            return TO_AGENT.decode(line)
        except BadMessageError as problem:
            raise ConnectionError(f"not a message: {problem}") from None

    def close(self) -> None:
        # Not waited for: the other end may be gone.
        self._writer.transport.abort()


async def dial(address: str, context: ssl.SSLContext) -> Connection:
    """Connect to a daemon; `OSError` if that fails."""
    return Connection(*await connect(address, context))


async def connect(
    address: str, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection to a daemon; `OSError` if that fails."""
    host, port = split_address(address)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context, limit=DAEMON_LINE, server_hostname=host
            )
    except TimeoutError:
        raise ConnectionError(f"no answer within {CONNECT_TIMEOUT:.0f} s") from None
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return reader, writer
