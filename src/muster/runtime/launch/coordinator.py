"""The coordinator of one job: connections to its tasks; carries out what the roster decides."""

import contextlib
import hmac
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from muster.roster.acts import Act, Begin, Check, Finish, Kill, Tell, Wake
from muster.roster.history import History
from muster.roster.roster import Roster
from muster.wire.channel import Channel, LineTooLongError
from muster.wire.codec import BadMessageError
from muster.wire.messages import VERSION, Changed, Hello, Message, Received

HELLO_TIMEOUT = 10.0
"""Seconds for a new connection to say who it is; a task says so at once."""

SEND_TIMEOUT = 5
"""Seconds after which a task that takes nothing in is cut off: it must not hold up the others."""

ANSWER_AFTER = 100
"""Messages after which an answer is due though more wait; a task has 1,000 under way at most."""

NOTES = 1_000
"""Oddities kept at most."""


@dataclass(frozen=True, slots=True)
class Hands:
    """How the coordinator starts and ends tasks."""

    begin: Callable[[str, str], None]
    """Takes a name and a role."""
    kill: Callable[[str], None]


class Coordinator:
    """Listens for a job's tasks; `changed` guards roster and history, and tells of every change."""

    def __init__(
        self,
        job: str,
        token: str,
        roster: Roster,
        history: History,
        hands: Hands,
        address: tuple[str, int] = ("127.0.0.1", 0),
        changed: threading.Condition | None = None,
    ) -> None:
        """Listen at an address (port 0: any); nothing is taken in before `start`."""
        self.roster, self.history = roster, history
        self.changed = changed or threading.Condition()
        self._job, self._token, self._hands = job, token, hands
        self._channels: dict[str, Channel] = {}
        self._open: set[Channel] = set()
        self._timers: dict[type[Act], threading.Timer] = {}
        self._closed = False
        self._listener = socket.create_server(address)
        self._thread = threading.Thread(target=self._accept, name="muster-coordinator", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    @property
    def outcome(self) -> Finish | None:
        """How the job has ended; None while it goes on."""
        return self.roster.over

    def start(self) -> None:
        """Begin to take connections."""
        self._thread.start()

    def resize(self, workers: int, servers: int | None = None) -> None:
        """Want so many workers and servers from now on (None: servers as before)."""
        self._do(lambda: self.roster.resize(workers, servers))

    def stop(self, reason: str) -> None:
        """Ask all tasks to end after their step."""
        self._do(lambda: self.roster.stop(reason))

    def exited(self, task: str, how: str) -> bool:
        """Note that a task's process has ended; False when this coordinator is closed."""
        return self._do(lambda: self.roster.exited(task, how))

    def close(self) -> None:
        """End all connections; the tasks train on."""
        with self.changed:
            self._closed = True
            channels, timers = list(self._open), list(self._timers.values())
        for timer in timers:
            timer.cancel()
        # A blocked accept() wakes up by a shutdown, not by a close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for channel in channels:
            channel.close()
        if self._thread.ident:
            self._thread.join(HELLO_TIMEOUT)

    def _do(self, decide: Callable[[], list[Act]]) -> bool:
        """Decide and act; False when closed: what was heard shall be said to the next."""
        with self.changed:
            if self._closed:
                return False
            self._carry_out(decide())
            self.history.note_lost(self.roster.lost)
            self.changed.notify_all()
            return True

    def _carry_out(self, acts: list[Act]) -> None:
        for act in acts:
            if isinstance(act, Begin):
                self._hands.begin(act.task, act.role)
            elif isinstance(act, Kill):
                self._hands.kill(act.task)
            elif isinstance(act, Tell):
                self._tell(act.task, act.message)
            elif isinstance(act, Wake):
                self._later(act, self.roster.woken)
            elif isinstance(act, Check):
                self._later(act, self.roster.check_plan)

    def _tell(self, task: str, message: Message) -> None:
        """What cannot be said now is said again when the task has connected."""
        channel = self._channels.get(task)
        if channel is not None:
            try:
                channel.send(message)
            except OSError:
                channel.close()

    def _later(self, act: Wake | Check, decide: Callable[[int], list[Act]]) -> None:
        """One timer of each kind: what an earlier one was set for is of the past."""
        earlier = self._timers.get(type(act))
        if earlier is not None:
            earlier.cancel()
        timer = threading.Timer(act.seconds, self._do, [lambda: decide(act.formation)])
        timer.daemon = True
        self._timers[type(act)] = timer
        timer.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), name="muster-task", daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        """One connection, from its `Hello` to its end."""
        channel = Channel(sock)
        with self.changed:
            self._open.add(channel)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_TIMEOUT, 0))
            sock.settimeout(HELLO_TIMEOUT)
            task = self._welcome(channel)
            if task and not self._closed:
                sock.settimeout(None)
                self._listen(channel)
        except (OSError, BadMessageError) as problem:
            self._note(f"connection given up: {problem}")
        finally:
            with self.changed:
                self._open.discard(channel)
                for name in [name for name, known in self._channels.items() if known is channel]:
                    del self._channels[name]
            channel.close()

    def _welcome(self, channel: Channel) -> bool:
        """Whether it is a task of this job."""
        hello = channel.receive()
        if not isinstance(hello, Hello):
            self._note("a connection that does not say hello")
            return False
        if (
            not hmac.compare_digest(hello.token.encode(), self._token.encode())
            or hello.job != self._job
        ):
            self._note(f"{hello.task}: not of this job, or the wrong token")
            return False
        if hello.version != VERSION:
            self._note(f"{hello.task}: speaks version {hello.version}, not {VERSION}")
            return False
        with self.changed:
            channel.send(Received(0))
            self._channels[hello.task] = channel
        self._do(lambda: self.roster.hello(hello))
        return True

    def _listen(self, channel: Channel) -> None:
        count = 0
        while True:
            try:
                message = channel.receive()
            except LineTooLongError:
                raise
            except BadMessageError as problem:
                # It counts as dealt with: said again, it would be no better.
                self._note(str(problem))
            else:
                if message is None or not self._hear(message):
                    return
            count += 1
            if count % ANSWER_AFTER == 0 or not channel.pending:
                channel.send(Received(count))

    def _hear(self, message: Message) -> bool:
        def decide() -> list[Act]:
            # What a task of before the last restart says of its members may bear the number of the
            # formation that came after it.
            if not isinstance(message, Changed) or message.task not in self.roster.retired:
                self.history.note(message, time.monotonic())
            return self.roster.heard(message)

        return self._do(decide)

    def _note(self, words: str) -> None:
        with self.changed:
            if len(self.history.notes) < NOTES and not self._closed:
                self.history.notes.append(words)
                self.changed.notify_all()
