"""The coordinator's end of the wire: accepts the tasks of one or more jobs, in an event loop.

A task says `Hello`, is admitted or not, and gets `Received(n)` for the messages that were handled. It
resends on its next connection what was not acknowledged, so a message may be heard twice and none is
lost. If `hear` raises, the connection ends with its message unacknowledged, and the event loop's
exception handler reports the error.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, cast

from muster.wire.channel import LINE_LIMIT
from muster.wire.codec import BadMessageError, decode, encode
from muster.wire.messages import VERSION, CheckpointNow, Hello, MemberPlan, Message, Received, Stop

HELLO_TIMEOUT = 10.0
"""Seconds for a new connection to say `Hello`; tasks do so at once."""

HELLO_LIMIT = 64 * 1024
"""Bytes of the first line: a `Hello` takes some 300."""

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

JobKey = TypeVar("JobKey", bound=Hashable)


class TaskServer(Generic[JobKey]):
    """Receives from and sends to connected tasks. Call it from the event loop's thread only."""

    def __init__(
        self,
        admit: Callable[[Hello], JobKey | None],
        hear: Callable[[JobKey, Message], None],
        note: Callable[[str], None],
    ) -> None:
        """`admit`: the key of the task's job, None for strangers; `hear`: handles a message, the
        `Hello` first; `note`: gets protocol errors, one per connection."""
        self.admit, self.hear, self.note = admit, hear, note
        self.buffer = bytearray(READ_SIZE)
        """Shared: the event loop hands over each read before the next."""
        self.open: set[_Connection[JobKey]] = set()
        self.closed = False
        self._jobs: dict[JobKey, dict[str, _Connection[JobKey]]] = {}
        self._listener: asyncio.Server | None = None
        self._encoded: tuple[Message, bytes] | None = None
        """The last message sent and its line: a plan goes to every member."""

    async def start(self, host: str, port: int) -> int:
        """Listen (port 0: any free one); return the port."""
        loop = asyncio.get_running_loop()
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
        if self._listener is not None:
            await _stop_accepting(self._listener)
        for connection in list(self.open):
            connection.cut()
        while self.open:  # asyncio calls connection_lost in its next iteration
            await asyncio.sleep(0)
        if self._listener is not None:
            await self._listener.wait_closed()

    def enter(self, connection: "_Connection[JobKey]", job: JobKey, task: str) -> None:
        """Register a task's connection, in place of an earlier one."""
        tasks = self._jobs.setdefault(job, {})
        earlier = tasks.get(task)
        tasks[task] = connection
        if earlier is not None:
            earlier.cut()

    def leave(self, connection: "_Connection[JobKey]") -> None:
        self.open.discard(connection)
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
        self._over = self._noted = False
        self._timer: asyncio.TimerHandle | None = None
        """Runs until the `Hello`, and while the task does not read."""

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        with contextlib.suppress(OSError, AttributeError):
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE)
        self._server.open.add(self)
        if self._server.closed:
            self.cut()
        else:
            self._set_timer(HELLO_TIMEOUT, f"no Hello within {HELLO_TIMEOUT:g} s")

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._stop_timer()
        self._server.leave(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._server.closed:
            return  # unacknowledged, it is resent to the next coordinator
        data = bytes(memoryview(self._server.buffer)[:nbytes])
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
            self._give_up(f"a line above the limit of {self._limit} bytes")
        elif lines and self.task and self._count % ANSWER_AFTER:
            self._answer()

    def pause_writing(self) -> None:
        self._set_timer(TAKE_TIMEOUT, f"{self.task} does not read its messages")

    def resume_writing(self) -> None:
        self._stop_timer()

    # the server's side

    def write(self, line: bytes) -> None:
        """Send a line, or queue what the system does not take at once."""
        if self._over:
            return
        self._transport.write(line)
        if self._transport.get_write_buffer_size() > TAKE_LIMIT:
            self._give_up(f"{self.task} does not read its messages")

    def end(self) -> None:
        """Stop reading, and close once the queue is flushed."""
        self._over = True
        self._transport.close()

    def cut(self) -> None:
        self._over = True
        self._transport.abort()

    @property
    def _limit(self) -> int:
        return LINE_LIMIT if self.task else HELLO_LIMIT

    def _take(self, line: bytes) -> None:
        if len(line) > self._limit:
            self._give_up(f"a line of {len(line)} bytes, above the limit of {self._limit}")
            return
        try:
            message = decode(line)
        except BadMessageError as problem:
            if not self.task:
                self._give_up(str(problem))
                return
            # It counts as handled: resent, it would be no better.
            self._note_once(str(problem))
        else:
            if self.job is None:
                self._welcome(message)
                return
            if isinstance(message, Hello | MemberPlan | CheckpointNow | Stop | Received):
                self._note_once(f"{self.task} of job {self.job} must not send {type(message).__name__}")
            else:
                self._server.hear(self.job, message)
        self._count += 1
        if self._count % ANSWER_AFTER == 0:
            self._answer()

    def _welcome(self, message: Message) -> None:
        if not isinstance(message, Hello):
            self._give_up("the first message is not a Hello")
            return
        job = self._server.admit(message) if message.task else None
        if job is None:
            self._give_up(f"{message.job}/{message.task}: unknown task or wrong token")
        elif message.version != VERSION:
            self._give_up(f"{message.task}: protocol version {message.version}, expected {VERSION}")
        else:
            self._stop_timer()
            self.job, self.task = job, message.task
            self._server.enter(self, job, message.task)
            self._answer()
            self._server.hear(job, message)

    def _answer(self) -> None:
        self.write(encode(Received(self._count)))

    def _give_up(self, why: str) -> None:
        self._note_once(f"connection closed: {why}")
        self.cut()

    def _note_once(self, text: str) -> None:
        """Report the first error only: a confused peer makes many."""
        if not self._noted:
            self._noted = True
            self._server.note(text)

    def _set_timer(self, seconds: float, why: str) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._give_up, why)

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
