"""One agent's connection: who it is, then lines both ways."""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import replace

import structlog

from muster.executors.fleet.fleet import Fleet
from muster.executors.fleet.identities import Identities
from muster.executors.fleet.join_error import JoinError
from muster.executors.fleet.packs import PackSource
from muster.executors.fleet.visits import FleetVisits
from muster.wire.agents.agent_codec import FROM_AGENT, TO_AGENT
from muster.wire.agents.agent_messages import (
    AGENT_VERSION,
    AgentHello,
    AgentRefused,
    DaemonAlive,
    FromAgent,
    Join,
    NeedPack,
    RenewCertificate,
    ToAgent,
    VisitHello,
)
from muster.wire.tasks.codec import BadMessageError

log = structlog.get_logger()

HELLO_TIMEOUT = 10.0
"""s from the end of the handshake to the first message."""
TAKE_LIMIT = 16 * 2**20
"""Bytes queued for an agent at most: orders for a hundred tasks with large environments."""


class AgentSession:
    """A connection; the loop's thread alone. `accepted` is called once the agent has proved itself."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        fleet: Fleet,
        identities: Identities,
        accepted: Callable[[], None],
        note: Callable[[str], None],
        packs: PackSource,
        visits: FleetVisits,
    ) -> None:
        self.node = ""
        self._packs, self._visits = packs, visits
        self._reader, self._writer = reader, writer
        self._fleet, self._identities = fleet, identities
        self._accepted, self._note = accepted, note
        self.address = str((writer.get_extra_info("peername") or ("",))[0])

    # --- what the fleet calls ---

    def send(self, *messages: ToAgent) -> None:
        """Send messages; no effect if the connection has ended."""
        if self._writer.is_closing():
            return
        try:
            self._writer.write(b"".join(TO_AGENT.encode(self._dated(each)) for each in messages))
        except BadMessageError as problem:
            log.error("a message to an agent cannot be written", node=self.node, problem=str(problem))
            return
        if self._writer.transport.get_write_buffer_size() > TAKE_LIMIT:
            self._note(f"the agent of {self.node} does not read its messages")
            self._writer.transport.abort()

    def _dated(self, message: ToAgent) -> ToAgent:
        """Tell an agent with each beat that its certificate is of an authority that is replaced."""
        if isinstance(message, DaemonAlive) and self._identities.stale(self.node):
            return replace(message, renew=True)
        return message

    def end(self) -> None:
        """Close it once what was sent has gone out."""
        self._writer.close()

    # ---

    async def run(self) -> None:
        """Serve the connection to its end."""
        try:
            certificate = self._certificate()
            async with asyncio.timeout(HELLO_TIMEOUT):
                first = await self._receive()
            if certificate is None:
                await self._join(first)
            else:
                await self._serve(certificate, first)
        except TimeoutError:
            self._note(f"{self.address} said nothing within {HELLO_TIMEOUT:g} s")
        except (BadMessageError, asyncio.LimitOverrunError) as problem:
            self._note(f"connection of {self.node or self.address} closed: {problem}")
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # it has ended
        except asyncio.CancelledError:
            self._writer.transport.abort()
            raise
        finally:
            if self.node:
                self._fleet.cut(self)
            await self._close()

    def _certificate(self) -> bytes | None:
        found: ssl.SSLObject = self._writer.get_extra_info("ssl_object")
        return found.getpeercert(binary_form=True)

    async def _receive(self) -> FromAgent:
        line = await self._reader.readuntil(b"\n")
        return FROM_AGENT.decode(line)

    async def _join(self, first: FromAgent) -> None:
        """Give an agent with a join token its certificate; it then calls again with that."""
        if not isinstance(first, Join):
            self._refuse("no certificate; join first (muster agent --join TOKEN)")
            return
        if first.version != AGENT_VERSION:
            self._refuse(
                f"the agent speaks protocol version {first.version}, the daemon {AGENT_VERSION}; "
                "install the same release on both"
            )
            return
        join = self._identities.join
        try:
            # In a thread of its own: it signs, and writes to the store.
            found = await asyncio.to_thread(join, first.token, first.node, first.request, self.address)
        except JoinError as problem:
            self._refuse(str(problem))
            return
        log.info("agent joined", node=first.node, address=self.address)
        self.send(found)

    async def _serve(self, certificate: bytes, first: FromAgent) -> None:
        try:
            node = self._identities.admitted(certificate)
        except JoinError as problem:
            self._refuse(str(problem))
            return
        if isinstance(first, VisitHello):
            self._accepted()
            await self._visits.serve(node, first.key, self._reader, self._writer)
            return
        if not isinstance(first, AgentHello):
            raise BadMessageError("the first message is not a hello")
        self._accepted()
        self.node = node
        if not self._fleet.called(self, first):
            return
        while True:
            await self._handle(await self._receive())

    async def _handle(self, message: FromAgent) -> None:
        if isinstance(message, RenewCertificate):
            try:
                renew = self._identities.renew
                self.send(await asyncio.to_thread(renew, self.node, message.request))
            except JoinError as problem:
                log.warning("certificate not renewed", node=self.node, problem=str(problem))
        elif isinstance(message, NeedPack):
            ships = self._fleet.ships(self.node, message.digest)
            self.send(await asyncio.to_thread(self._packs.part, message, ships))
        else:
            self._fleet.heard(self, message)

    def _refuse(self, why: str) -> None:
        self._note(f"{self.address} refused: {why}")
        self.send(AgentRefused(why[:2000]))

    async def _close(self) -> None:
        with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
            self._writer.close()
            async with asyncio.timeout(HELLO_TIMEOUT):
                await self._writer.wait_closed()
