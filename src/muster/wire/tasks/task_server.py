"""The coordinator's end of the wire: accepts the tasks of one or more jobs, in an event loop.

Off loopback it listens with TLS. Both ends prove that they know the job's token (`introduction.py`),
the server first; over TLS the proofs hold for its certificate alone, so nobody can sit in between. Then
a task says `Hello` and gets `Received(n)` for the messages that were handled. It resends on its next
connection what was not acknowledged, so a message may be heard twice and none is lost. Until its proof
a connection is a stranger's: it may send a few hundred bytes within seconds, and the oldest of many
gives way. If `hear` raises, the connection ends with its message unacknowledged, and the event loop's
exception handler reports the error.
"""

import asyncio
import contextlib
import secrets
import socket
import ssl
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from muster.wire.agents.tls_listener import TlsListener
from muster.wire.seldom import SeldomNotes, shortened
from muster.wire.tasks.channel import LINE_LIMIT
from muster.wire.tasks.codec import BadMessageError, decode, encode
from muster.wire.tasks.introduction import (
    INTRODUCTION_LIMIT,
    INTRODUCTION_TIMEOUT,
    challenge_to,
    is_answer,
)
from muster.wire.tasks.messages import (
    VERSION,
    Challenge,
    CheckpointNow,
    Hello,
    MemberPlan,
    Message,
    Opening,
    Proof,
    Received,
    Refused,
    Report,
    Stop,
)

STRANGERS = 256
"""Connections without a proof at most: a task needs a few ms for it, so all tasks of a large job can
come at once, and whoever fills the places is the first to lose its own."""

TAKE_TIMEOUT = 5.0
"""Seconds for a task to read what the kernel's buffers could not take."""

TAKE_LIMIT = 2 * LINE_LIMIT
"""Bytes queued for a task at most: the longest message, twice."""

ANSWER_AFTER = 100
"""Messages between acknowledgements while more are waiting; a task has at most 1,000 in flight."""

READ_SIZE = 64 * 1024
"""Bytes per read: some 200 steps, handled in a few ms, before the next connection has its turn."""

KEEPALIVE_IDLE = 30
"""Seconds of silence before TCP probes the other node: one that lost power must not look connected."""

_NOT_A_TASKS = (
    Opening,
    Challenge,
    Proof,
    Refused,
    Hello,
    MemberPlan,
    CheckpointNow,
    Stop,
    Received,
)
"""What a task does not say, or only once."""

JobKey = TypeVar("JobKey", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TaskTls:
    """What a server listens with, and how its tasks know it."""

    context: ssl.SSLContext
    binding: str
    """See `tls_stream.binding_of`."""


class TaskServer(Generic[JobKey]):
    """Receives from and sends to connected tasks. Call it from the event loop's thread only."""

    def __init__(
        self,
        admit: Callable[[Opening], tuple[JobKey, str] | None],
        hear: Callable[[JobKey, Message], None],
        note: Callable[[str], None],
    ) -> None:
        """`admit`: the key of a task's job and its token, None if there is no such task; `hear`:
        handles a message, the `Hello` first; `note`: gets protocol errors, one per connection, and few
        of strangers."""
        self.admit, self.hear, self.note = admit, hear, note
        self.note_stranger = SeldomNotes(note)
        self._strangers: dict[_Connection[JobKey], None] = {}
        """Oldest first."""
        self.buffer = memoryview(bytearray(READ_SIZE))
        """Shared: the event loop hands over each read before the next. A view: asyncio's TLS takes
        slices of it to read into."""
        self.open: set[_Connection[JobKey]] = set()
        self.closed = False
        self._jobs: dict[JobKey, dict[str, _Connection[JobKey]]] = {}
        self._listener: asyncio.Server | None = None
        self._secure: TlsListener | None = None
        self.take_report: Callable[[JobKey, Report, Callable[[], None]], None] = self._take_report
        """Handles a report, and acknowledges it by a call."""
        self.binding = ""
        """Of its certificate; empty: without TLS."""
        self._encoded: tuple[Message, bytes] | None = None
        """The last message sent and its line: a plan goes to every member."""

    async def start(self, host: str, port: int, tls: "TaskTls | None" = None) -> int:
        """Listen (port 0: any free one), with TLS if given; return the port."""
        loop = asyncio.get_running_loop()
        if tls is not None:
            self.binding = tls.binding
            self._secure = TlsListener(host, port, tls.context, lambda: _Connection(self))
            return self._secure.port
        self._listener = await loop.create_server(lambda: _Connection(self), host, port)
        return int(self._listener.sockets[0].getsockname()[1])

    def tell(self, job: JobKey, task: str, message: Message) -> None:
        """Send a message if the task is connected; orders are repeated after its next `Hello`."""
        connection = self._jobs.get(job, {}).get(task)
        if connection is not None and (line := self._line(message)):
            connection.write(line)

    def drop(self, job: JobKey) -> None:
        """Close the connections of a job, after what is queued for them has gone out."""
        for connection in self._jobs.pop(job, {}).values():
            connection.end()

    async def close(self) -> None:
        """Close everything; the tasks keep training."""
        self.closed = True
        if self._secure is not None:
            await self._secure.close()
        if self._listener is not None:
            await _stop_accepting(self._listener)
        for connection in list(self.open):
            connection.cut()
        while self.open:  # asyncio calls connection_lost in its next iteration
            await asyncio.sleep(0)
        if self._listener is not None:
            await self._listener.wait_closed()

    def _take_report(self, job: JobKey, report: Report, answer: Callable[[], None]) -> None:
        self.hear(job, report)
        answer()

    def receive_stranger(self, connection: "_Connection[JobKey]") -> None:
        """Give a connection without a proof a place, the oldest one's if there is no other."""
        self._strangers[connection] = None
        if len(self._strangers) > STRANGERS:
            next(iter(self._strangers)).give_up("too many connections without a proof")

    def trust(self, connection: "_Connection[JobKey]") -> None:
        """Free the place of a connection that has proved itself, or is gone."""
        self._strangers.pop(connection, None)

    def enter(self, connection: "_Connection[JobKey]", job: JobKey, task: str) -> None:
        """Register a task's connection, in place of an earlier one."""
        tasks = self._jobs.setdefault(job, {})
        earlier = tasks.get(task)
        tasks[task] = connection
        if earlier is not None:
            earlier.cut()

    def leave(self, connection: "_Connection[JobKey]") -> None:
        self.open.discard(connection)
        self.trust(connection)
        if connection.job is None:
            return
        tasks = self._jobs.get(connection.job, {})
        if tasks.get(connection.task) is connection:
            del tasks[connection.task]
            if not tasks:
                del self._jobs[connection.job]

    def _line(self, message: Message) -> bytes | None:
        if self._encoded is None or self._encoded[0] is not message:
            try:
                line = encode(message)
            except BadMessageError as problem:
                self.note(str(problem))
                return None
            if len(line) > LINE_LIMIT:
                self.note(f"{type(message).__name__} of {len(line)} bytes is above the limit: not sent")
                return None
            self._encoded = message, line
        return self._encoded[1]


class _Connection(asyncio.BufferedProtocol, Generic[JobKey]):
    """One task's connection: lines in, lines out."""

    def __init__(self, server: TaskServer[JobKey]) -> None:
        self.job: JobKey | None = None
        self.task = ""
        self._server = server
        self._transport: asyncio.Transport
        self._rest = bytearray()
        """An incomplete line."""
        self._count = 0
        """Messages handled, without the `Hello`."""
        self._over = self._noted = self._proved = False
        self._opening: Opening | None = None
        self._challenge = Challenge("", "")
        self._job: tuple[JobKey, str] | None = None
        """Job and token of the task that it says it is."""
        self._timer: asyncio.TimerHandle | None = None
        """Runs until the `Hello`, and while the task does not read."""

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # Pause as soon as anything is queued; asyncio's TLS would always pause at a limit of 0.
        self._transport.set_write_buffer_limits(high=1, low=0)
        with contextlib.suppress(OSError, AttributeError):
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
        self._server.open.add(self)
        if self._server.closed:
            self.cut()
        else:
            self._set_timer(INTRODUCTION_TIMEOUT, f"no proof within {INTRODUCTION_TIMEOUT:g} s")
            self._server.receive_stranger(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._stop_timer()
        self._server.leave(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._server.closed:
            return  # unacknowledged, it is resent to the next coordinator
        data = bytes(self._server.buffer[:nbytes])
        # Join once per read and search new bytes only: a line may come in a thousand reads.
        end = data.rfind(b"\n")
        if end < 0:
            self._rest += data
            lines: list[bytes] = []
        else:
            lines = (bytes(self._rest) + data[:end]).split(b"\n")
            self._rest = bytearray(data[end + 1 :])
        for line in lines:
            self._take(line)
            if self._over:
                return
        if len(self._rest) > self._limit:
            self.give_up(f"a line above the limit of {self._limit} bytes")
        elif lines and self.task and self._count % ANSWER_AFTER:
            self._answer()

    def pause_writing(self) -> None:
        if self.task:  # before that, the timer is the introduction's
            self._set_timer(TAKE_TIMEOUT, f"{self.task} does not read its messages")

    def resume_writing(self) -> None:
        if self.task:
            self._stop_timer()

    # the server's side

    def write(self, line: bytes) -> None:
        """Send a line, or queue what the system does not take at once."""
        if self._over:
            return
        self._transport.write(line)
        if self._transport.get_write_buffer_size() > TAKE_LIMIT:
            self.give_up(f"{self.task} does not read its messages")

    def end(self) -> None:
        """Stop reading, and close once the queue is flushed."""
        self._over = True
        self._transport.close()

    def cut(self) -> None:
        self._over = True
        self._transport.abort()

    @property
    def _limit(self) -> int:
        return LINE_LIMIT if self._proved else INTRODUCTION_LIMIT

    def _take(self, line: bytes) -> None:
        if len(line) > self._limit:
            self.give_up(f"a line of {len(line)} bytes, above the limit of {self._limit}")
            return
        try:
            message = decode(line)
        except BadMessageError as problem:
            if not self.task:
                self.give_up(str(problem))
                return
            # It counts as handled: resent, it would be no better.
            self._note_once(str(problem))
        else:
            if self.job is None:
                self._welcome(message)
                return
            if isinstance(message, _NOT_A_TASKS):
                self._note_once(f"{self.task} of job {self.job} must not send {type(message).__name__}")
            else:
                self._server.hear(self.job, message)
        self._count += 1
        if self._count % ANSWER_AFTER == 0:
            self._answer()

    def _welcome(self, message: Message) -> None:
        """Handle what comes before the first report: opening, proof, hello."""
        if self._opening is None:
            self._challenge_task(message)
        elif not self._proved:
            self._check_proof(self._opening, message)
        elif isinstance(message, Report):
            self._hear_once(message)
        elif not isinstance(message, Hello) or message.task != self._opening.task:
            self.give_up(f"{self._who} did not say Hello after its proof")
        else:
            self._stop_timer()
            assert self._job is not None
            self.job, self.task = self._job[0], message.task
            self._server.enter(self, self.job, message.task)
            self._answer()
            self._server.hear(self.job, message)

    def _hear_once(self, report: Report) -> None:
        """Handle the one message of a connection that is not its task's own."""
        assert self._job is not None
        self._count = 1
        self._server.take_report(self._job[0], report, self._answer_last)

    def _answer_last(self) -> None:
        """Acknowledge a report, after which nothing follows."""
        self._answer()
        self.end()

    def _challenge_task(self, message: Message) -> None:
        if isinstance(message, Hello):
            self._refuse(f"{message.task} speaks an older protocol than version {VERSION}")
        elif not isinstance(message, Opening):
            self.give_up("the first message is not an Opening")
        elif message.version != VERSION:
            self._refuse(f"{message.task} speaks protocol version {message.version}, not {VERSION}")
        else:
            self._opening, self._job = message, self._server.admit(message)
            # Strangers get a challenge as well, and cannot tell which tasks there are.
            token = self._job[1] if self._job is not None else secrets.token_hex()
            self._challenge = challenge_to(message, token, self._server.binding)
            self.write(encode(self._challenge))
            if self._job is None:
                self._note_once(f"{self._who}: no such task")

    def _check_proof(self, opening: Opening, message: Message) -> None:
        job = self._job
        if (
            job is not None
            and isinstance(message, Proof)
            and is_answer(message, opening, self._challenge, job[1], self._server.binding)
        ):
            self._proved = True
            self._server.trust(self)
        else:
            self.give_up(f"{self._who}: wrong token")

    @property
    def _who(self) -> str:
        return f"{self._opening.job}/{self._opening.task}" if self._opening else "a stranger"

    def _refuse(self, why: str) -> None:
        """Tell a task of another version why it is not heard: it can say so to its user."""
        text = f"{why}; install the same version of Muster for the daemon and the job"
        self._note_once(f"connection closed: {text}")
        self.write(encode(Refused(shortened(text))))
        self.end()

    def _answer(self) -> None:
        self.write(encode(Received(self._count)))

    def give_up(self, why: str) -> None:
        """Report an error and end the connection."""
        self._note_once(f"connection closed: {why}")
        self.cut()

    def _note_once(self, text: str) -> None:
        """Report the first error only: a confused peer makes many."""
        if not self._noted:
            self._noted = True
            report = self._server.note if self._proved else self._server.note_stranger
            report(shortened(text))

    def _set_timer(self, seconds: float, why: str) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.give_up, why)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _stop_accepting(listener: asyncio.Server) -> None:
    """Close a listener once its accepted connections are set up: asyncio would leave them half made."""
    loop = asyncio.get_running_loop()
    for sock in listener.sockets:
        loop.remove_reader(sock.fileno())
    for _ in range(2):  # one iteration starts the task that sets a connection up, the next runs it
        await asyncio.sleep(0)
    listener.close()
