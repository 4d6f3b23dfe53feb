"""The daemon's ear: connections of the tasks of all jobs, on one port, in the event loop.

A task says `Hello`, is let in or not, and is answered `Received(n)` for what was dealt with. What is
not answered it says again on its next connection, so a message may be heard twice and none is lost. If
`hear` raises, the connection ends, its message unanswered; the event loop's handler tells of the error.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, cast

import structlog

from muster.wire.channel import LINE_LIMIT
from muster.wire.codec import BadMessageError, decode, encode
from muster.wire.messages import (
    VERSION,
    CheckpointNow,
    Hello,
    Message,
    Plan,
    Received,
    Stop,
)

HELLO_TIMEOUT = 10.0
"""Seconds for a new connection to say who it is; a task says so at once."""

HELLO_LIMIT = 64 * 1024
"""Bytes that a stranger may send before it has said who it is: a `Hello` takes some 300."""

TAKE_TIMEOUT = 5.0
"""Seconds for a task to take in what the kernel's own buffers could not: it may not gather messages."""

TAKE_LIMIT = 2 * LINE_LIMIT
"""Bytes that wait for a task at most, whatever the time: the longest message, and as much again."""

ANSWER_AFTER = 100
"""Messages after which an answer is due though more wait; a task has 1,000 under way at most."""

READ_SIZE = 64 * 1024
"""Bytes read at once: some 200 steps, dealt with in a few ms, before anybody else has a turn."""

QUIET = 30
"""Seconds of silence after which the system asks whether the other node is still there."""

Note = Callable[[str], None]


class Wires:
    """Hears and tells the tasks of all jobs. All calls belong into the event loop's thread."""

    def __init__(
        self,
        admit: Callable[[Hello], int | None],
        hear: Callable[[int, Message], None],
        note: Note | None = None,
    ) -> None:
        """`admit`: the job of ours that this is a task of, by its token; `hear`: takes a job and what
        its task said, the `Hello` first; `note`: is told of oddities, once for each connection."""
        self.admit, self.hear = admit, hear
        self.note = note or _log
        self.room = bytearray(READ_SIZE)
        """What is read goes here: the event loop hands it over before it reads from anybody else."""
        self.open: set[_Connection] = set()
        self.closed = False
        self._jobs: dict[int, dict[str, _Connection]] = {}
        self._listener: asyncio.Server | None = None
        self._said: tuple[Message, bytes] | None = None
        """The last message told and its line: a plan goes to every member."""

    async def start(self, host: str, port: int) -> int:
        """Listen (port 0: any); the port."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Connection(self), host, port)
        return int(self._listener.sockets[0].getsockname()[1])

    def tell(self, job: int, task: str, message: Message) -> None:
        """Send it if the task is connected. What is lost is told again at its next `Hello`."""
        connection = self._jobs.get(job, {}).get(task)
        line = self._line(message) if connection is not None else None
        if connection is not None and line is not None:
            connection.write(line)

    def connected(self, job: int) -> set[str]:
        """The tasks of a job that are connected now."""
        return set(self._jobs.get(job, ()))

    def drop(self, job: int) -> None:
        """End the connections of a job; what was told before still goes out."""
        for connection in self._jobs.pop(job, {}).values():
            connection.end()

    async def close(self) -> None:
        """End everything; the tasks train on."""
        self.closed = True
        if self._listener is not None:
            await _accept_no_more(self._listener)
        for connection in list(self.open):
            connection.cut()
        while self.open:  # the event loop tells of each end in its next turn
            await asyncio.sleep(0)
        if self._listener is not None:
            await self._listener.wait_closed()

    def enter(self, connection: "_Connection") -> None:
        """A task has come; an earlier connection of it is of no more use."""
        tasks = self._jobs.setdefault(connection.job, {})
        earlier = tasks.get(connection.task)
        tasks[connection.task] = connection
        if earlier is not None:
            earlier.cut()

    def leave(self, connection: "_Connection") -> None:
        """A connection has ended."""
        self.open.discard(connection)
        job, task = connection.job, connection.task
        tasks = self._jobs.get(job, {})
        if tasks.get(task) is connection:
            del tasks[task]
            if not tasks:
                del self._jobs[job]

    def _line(self, message: Message) -> bytes | None:
        if self._said is None or self._said[0] is not message:
            try:
                line = encode(message)
            except BadMessageError as problem:
                self.note(str(problem))
                return None
            if len(line) > LINE_LIMIT:
                self.note(f"{type(message).__name__} of {len(line)} bytes is above the limit: not sent")
                return None
            self._said = message, line
        return self._said[1]


class _Connection(asyncio.BufferedProtocol):
    """One task's connection: lines in, lines out."""

    def __init__(self, wires: Wires) -> None:
        self.job, self.task = 0, ""
        self._wires = wires
        self._transport: asyncio.Transport
        self._rest = bytearray()
        """The begin of a line whose end has not come yet."""
        self._count = 0
        """Messages dealt with, the `Hello` not counted."""
        self._over = self._odd = False
        self._timer: asyncio.TimerHandle | None = None
        """Runs until it says hello, and while it takes nothing in."""

    # the event loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        _keep_alive(self._transport.get_extra_info("socket"))
        self._wires.open.add(self)
        if self._wires.closed:
            self.cut()
            return
        self._set_timer(HELLO_TIMEOUT, "a connection that says nothing")

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._stop_timer()
        self._wires.leave(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._wires.room

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(memoryview(self._wires.room)[:nbytes])
        # Joined once a read, searched only where it is new: a line may come in a thousand pieces.
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
        self._set_timer(TAKE_TIMEOUT, f"{self.task} takes nothing in")

    def resume_writing(self) -> None:
        self._stop_timer()

    # ours

    def write(self, line: bytes) -> None:
        """Send a line, or what the system does not take of it later."""
        if self._over:
            return
        self._transport.write(line)
        if self._transport.get_write_buffer_size() > TAKE_LIMIT:
            self._give_up(f"{self.task} takes nothing in")

    def end(self) -> None:
        """Hear no more; what waits to be sent goes out, if it does so in time."""
        self._over = True
        self._transport.close()

    def cut(self) -> None:
        """End at once."""
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
            # It counts as dealt with: said again, it would be no better.
            self._note_once(str(problem))
        else:
            if not self.task:
                self._welcome(message)
                return
            self._pass_on(message)
        self._count += 1
        if self._count % ANSWER_AFTER == 0:
            self._answer()

    def _welcome(self, message: Message) -> None:
        """Let a task of ours in, and nobody else."""
        if not isinstance(message, Hello):
            self._give_up("a connection that does not say hello")
        elif not message.task or (job := self._wires.admit(message)) is None:
            self._give_up(f"{message.job}/{message.task}: not a task of ours, or the wrong token")
        elif message.version != VERSION:
            self._give_up(f"{message.task}: speaks version {message.version}, not {VERSION}")
        else:
            self._stop_timer()
            self.job, self.task = job, message.task
            self._wires.enter(self)
            self._answer()
            self._wires.hear(self.job, message)

    def _pass_on(self, message: Message) -> None:
        if isinstance(message, Hello | Plan | CheckpointNow | Stop | Received):
            self._note_once(f"{self.job}/{self.task} says {type(message).__name__}: not its to say")
        else:
            self._wires.hear(self.job, message)

    def _answer(self) -> None:
        self.write(encode(Received(self._count)))

    def _give_up(self, why: str) -> None:
        self._note_once(f"connection given up: {why}")
        self.cut()

    def _note_once(self, words: str) -> None:
        """A peer that speaks nonsense does so at length."""
        if not self._odd:
            self._odd = True
            self._wires.note(words)

    def _set_timer(self, seconds: float, why: str) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._give_up, why)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _accept_no_more(listener: asyncio.Server) -> None:
    """Close a listener once the connections that it has accepted already are made: asyncio leaves one
    that it is about to make half made."""
    loop = asyncio.get_running_loop()
    for sock in listener.sockets:
        loop.remove_reader(sock.fileno())
    for _ in range(2):  # a turn to begin the task that makes it, and one in which it has
        await asyncio.sleep(0)
    listener.close()


def _keep_alive(sock: Any) -> None:
    """So that a node which lost its power does not count as connected for hours."""
    with contextlib.suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, QUIET)


def _log(words: str) -> None:
    structlog.get_logger("muster.wires").warning("oddity on the wire", words=words)
