"""Who is admitted, what is acknowledged, and that no message is lost."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

import pytest

from muster.daemon.tasks.task_tls import new_task_tls
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import TaskSettings
from muster.wire.agents import tls_listener
from muster.wire.agents.tls_stream import TlsStream
from muster.wire.tasks import task_server
from muster.wire.tasks.channel import LINE_LIMIT, Channel
from muster.wire.tasks.codec import encode
from muster.wire.tasks.introduction import introduce
from muster.wire.tasks.messages import (
    Captured,
    Challenge,
    Hello,
    Member,
    MemberPlan,
    Message,
    Opening,
    Proof,
    Ready,
    Received,
    Refused,
    StepDone,
    Stop,
)
from muster.wire.tasks.task_server import TaskServer, TaskTls

LONG = 20.0
T = TypeVar("T")


class Served:
    """A server in an event loop of its own; keeps what it hears."""

    def __init__(self, tls: TaskTls | None = None) -> None:
        self.tls = tls
        self.loop = asyncio.new_event_loop()
        self.heard: list[tuple[str, Message]] = []
        self.notes: list[str] = []
        self.news = threading.Condition()
        self.deaf = False
        self.server = self._serve()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.port = self.do(self.server.start("127.0.0.1", 0, tls))

    def _serve(self) -> TaskServer[str]:
        def admit(opening: Opening) -> tuple[str, str] | None:
            return (opening.job, "secret") if opening.task.startswith("worker-") else None

        return TaskServer(admit, self._hear, self._note)

    def _hear(self, job: str, message: Message) -> None:
        if self.deaf:
            raise RuntimeError("the journal cannot be written")
        with self.news:
            self.heard.append((job, message))
            self.news.notify_all()

    def _note(self, words: str) -> None:
        with self.news:
            self.notes.append(words)
            self.news.notify_all()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LONG)

    def call(self, work: Callable[[], T]) -> T:
        async def wrapped() -> T:
            return work()

        return self.do(wrapped())

    def connected(self, job: str) -> set[str]:
        return self.call(lambda: set(self.server._jobs.get(job, ())))

    def wait(self, met: Callable[[], bool]) -> None:
        with self.news:
            assert self.news.wait_for(met, LONG), (self.notes, self.heard[-3:])

    def steps(self, job: str) -> list[int]:
        return [m.step for name, m in list(self.heard) if name == job and isinstance(m, StepDone)]

    def connect(self, first: Message | bytes) -> Channel:
        sock = socket.create_connection(("127.0.0.1", self.port), LONG)
        stream = TlsStream(sock) if self.tls else sock
        channel = Channel(stream)
        if isinstance(first, bytes):
            with contextlib.suppress(OSError):  # the server may have heard enough
                stream.sendall(first)
            return channel
        if isinstance(first, Hello):
            binding = self.tls.binding if self.tls else ""
            introduce(channel, "", first.job, first.task, "secret", binding)
            sock.settimeout(LONG)
        channel.send(first)
        return channel

    def again(self) -> None:
        """The daemon dies and another begins at the same port."""
        self.do(self.server.close())
        self.server = self._serve()
        assert self.do(self.server.start("127.0.0.1", self.port, self.tls)) == self.port

    def close(self) -> None:
        self.do(self.server.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(params=["plain", "tls"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    one = Served(new_task_tls() if request.param == "tls" else None)
    yield one
    one.close()


@pytest.fixture
def link(served: Served) -> Iterator[Callable[..., CoordinatorLink]]:
    made: list[CoordinatorLink] = []

    def make(
        job: str = "j",
        task: str = "worker-0",
        token: str = "secret",
        on: Callable[[Message], None] = lambda _: None,
    ) -> CoordinatorLink:
        settings = TaskSettings(job, task, "worker", ("127.0.0.1", served.port), token)
        settings = replace(settings, encrypted=served.tls is not None)
        made.append(CoordinatorLink(settings, "127.0.0.1:5", on))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def hello(task: str = "worker-0", job: str = "j") -> Hello:
    return Hello(job, task, "worker", "127.0.0.1:5", 7)


def step(number: int, task: str = "worker-0") -> StepDone:
    return StepDone(task, 1, number, 0, 8, 1.0, 0.1, 0.1, 0.1, 0.1)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (Ready("worker-0"), "not an Opening"),
        (b"GET / HTTP/1.1\r\n\r\n", "not JSON"),
        (b"\x16\x03\x01\x00\n", "not JSON"),
        (b"x" * 200_000, "above the limit"),
        (b'{"kind":"Hello","job":"j","task":"' + b"x" * 60_000 + b'"}\n', "above the limit"),
    ],
)
def test_strangers_are_turned_away(served: Served, first: Message | bytes, words: str) -> None:
    channel = served.connect(first)
    assert channel.receive() is None
    served.wait(lambda: any(words in note for note in served.notes))
    channel.close()
    assert served.heard == []
    assert served.connected("j") == set()
    assert max(len(note) for note in served.notes) < 300


@pytest.mark.parametrize("task", ["worker-0", "nobody"])
def test_who_does_not_know_the_token_proves_nothing_and_learns_nothing(
    served: Served, task: str
) -> None:
    """Whether there is such a task or not: a challenge, and no answer to a wrong proof."""
    channel = served.connect(Opening("j", task, "00" * 32))
    assert isinstance(channel.receive(), Challenge)
    channel.send(Proof("00" * 32), hello(task), Ready(task))
    assert channel.receive() is None
    served.wait(lambda: bool(served.notes))
    assert served.heard == []
    channel.close()


@pytest.mark.parametrize(
    "first",
    [
        Opening("j", "worker-0", "00" * 32, version=99),
        b'{"kind":"Hello","job":"j","task":"worker-0","role":"worker","address":"h:1","pid":5,"token":"secret"}\n',
    ],
)
def test_another_version_is_told_what_to_do(served: Served, first: Message | bytes) -> None:
    channel = served.connect(first)
    refused = channel.receive()
    assert isinstance(refused, Refused)
    assert "install the same version of Muster" in refused.why
    assert channel.receive() is None
    channel.close()


def test_who_says_nothing_is_not_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_server, "INTRODUCTION_TIMEOUT", 0.05)
    channel = served.connect(b"")
    assert channel.receive() is None
    assert any("no proof" in note for note in served.notes)
    channel.close()


def test_strangers_that_fill_all_places_keep_no_task_out(
    served: Served, link: Callable[..., CoordinatorLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_server, "STRANGERS", 8)
    crowd = [served.connect(b"") for _ in range(20)]
    one = link()
    one.send(Ready("worker-0"))
    assert one.flush(LONG)
    # The oldest are gone, and all of it made one line.
    assert crowd[0].receive() is None
    assert len(served.notes) == 1
    for channel in crowd:
        channel.close()


class Impostor:
    """Listens where a coordinator was, and keeps all that it is told."""

    def __init__(self, answer: bytes) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.answer, self.told = answer, bytearray()
        self.gone = threading.Event()
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        sock, _ = self.listener.accept()
        with sock:
            self.told += sock.recv(65536)
            sock.sendall(self.answer)
            while data := sock.recv(65536):
                self.told += data
        self.gone.set()
        self.listener.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (encode(Challenge("11" * 32, "22" * 32)), "does not know this job's token"),
        (encode(Received(0)), "does not speak version"),
        (b"220 smtp.example.org ESMTP\r\n", "does not speak version"),
        (b"x" * 100_000, "does not speak version"),
        (encode(Refused("update it" + "\n" * 300)), "update it"),
    ],
)
def test_whoever_listens_instead_of_the_coordinator_gets_no_token(
    answer: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    there = Impostor(answer)
    address = ("127.0.0.1", int(there.listener.getsockname()[1]))
    settings = TaskSettings("j", "worker-0", "worker", address, "the job's secret")
    link = CoordinatorLink(settings, "127.0.0.1:5", lambda _: None)
    link.send(Ready("worker-0"))
    link.start()
    assert there.gone.wait(LONG)
    link.close()
    there.thread.join()
    told = bytes(there.told)
    assert told.count(b"\n") == 1 and b'"kind":"Opening"' in told
    assert b"secret" not in told
    assert words in caplog.text
    assert len(caplog.messages) == 1 and "\n" not in caplog.messages[0]


def test_each_message_is_answered_and_a_bad_one_passed_over(served: Served) -> None:
    channel = served.connect(hello())
    assert channel.receive() == Received(0)
    # An order is not a task's to give, and a second hello not its to say.
    said: tuple[Message, ...] = (Stop("x"), hello("worker-9"), Ready("worker-0"))
    lines = [b'{"kind":"Dance"}\n', *(channel.line(message) for message in said)]
    channel.send_lines(lines)
    answers: list[Message | None] = []
    while not answers or answers[-1] != Received(4):
        answers.append(channel.receive())
    assert served.heard == [("j", hello()), ("j", Ready("worker-0"))]
    assert served.notes == ["unknown kind of message: 'Dance'"]
    channel.close()


def test_a_line_in_many_pieces_and_many_lines_in_one(served: Served) -> None:
    channel = served.connect(hello())
    shape = {"parameters": ["x" * 100] * 5_000}
    big = channel.line(Captured("worker-0", shape))
    channel.send_lines([big, *(channel.line(step(n)) for n in range(300)), big])
    served.wait(lambda: len(served.heard) == 303)
    assert served.steps("j") == list(range(300))
    assert served.heard[1] == served.heard[-1] == ("j", Captured("worker-0", shape))
    channel.close()


def test_a_line_without_an_end_is_cut_off(served: Served) -> None:
    channel = served.connect(hello())
    assert channel.receive() == Received(0)
    with pytest.raises(OSError):
        for _ in range(2 * LINE_LIMIT // 65536):
            channel.send_lines([b"x" * 65536])
        channel.receive()
        channel.send_lines([b"x"])
    assert any("above the limit" in note for note in served.notes)
    channel.close()


def test_jobs_of_the_same_tasks_are_kept_apart(
    served: Served, link: Callable[..., CoordinatorLink]
) -> None:
    got: dict[str, list[Message]] = {"a": [], "b": []}
    there = threading.Semaphore(0)

    def note(job: str) -> Callable[[Message], None]:
        def keep(message: Message) -> None:
            got[job].append(message)
            there.release()

        return keep

    links = {job: link(job, on=note(job)) for job in ("a", "b")}
    for number, job in enumerate(links):
        links[job].send(step(number))
        assert links[job].flush(LONG)
    assert (served.steps("a"), served.steps("b")) == ([0], [1])
    assert served.connected("a") == {"worker-0"}
    plan = MemberPlan(1, 0, (Member("worker-0", "worker", "h:1"),))
    served.call(lambda: served.server.tell("b", "worker-0", plan))
    served.call(lambda: served.server.tell("a", "worker-1", plan))  # nobody of that name
    served.call(lambda: served.server.tell("c", "worker-0", plan))
    assert there.acquire(timeout=LONG)
    assert got == {"a": [], "b": [plan]}


def test_what_no_line_can_hold_is_not_told(served: Served) -> None:
    channel = served.connect(hello())
    assert channel.receive() == Received(0)
    served.call(lambda: served.server.tell("j", "worker-0", Stop("x" * LINE_LIMIT)))
    served.call(lambda: served.server.tell("j", "worker-0", Captured("worker-0", {"a": object()})))
    served.call(lambda: served.server.tell("j", "worker-0", Stop("enough")))
    assert channel.receive() == Stop("enough")
    assert "above the limit" in served.notes[0]
    assert "cannot be written" in served.notes[1]
    channel.close()


def test_a_newer_connection_of_a_task_replaces_the_older(served: Served) -> None:
    older = served.connect(hello())
    assert older.receive() == Received(0)
    newer = served.connect(hello())
    assert newer.receive() == Received(0)
    assert older.receive() is None
    served.call(lambda: served.server.tell("j", "worker-0", Stop("enough")))
    assert newer.receive() == Stop("enough")
    assert served.connected("j") == {"worker-0"}
    older.close()
    newer.close()


def test_dropped_is_told_first(served: Served) -> None:
    channel = served.connect(hello())
    assert channel.receive() == Received(0)
    served.call(lambda: served.server.tell("j", "worker-0", Stop("over")))
    served.call(lambda: served.server.drop("j"))
    assert channel.receive() == Stop("over")
    assert channel.receive() is None
    assert served.connected("j") == set()
    channel.close()


def test_nothing_is_lost_over_any_number_of_daemons(
    served: Served, link: Callable[..., CoordinatorLink]
) -> None:
    links = [link("j", f"worker-{i}") for i in range(3)]
    for life in range(4):
        for number in range(500 * life, 500 * life + 500):
            for i, one in enumerate(links):
                one.send(step(number, f"worker-{i}"))
        served.wait(lambda: len(served.steps("j")) > 500 * life)  # noqa: B023
        served.again()
    assert all(one.flush(LONG) for one in links)
    for i in range(3):
        said = [m.step for _, m in served.heard if isinstance(m, StepDone) and m.task == f"worker-{i}"]
        # Each at least once, and for the first time in their order.
        assert list(dict.fromkeys(said)) == list(range(2000))


def test_what_could_not_be_dealt_with_is_said_again(
    served: Served, link: Callable[..., CoordinatorLink], caplog: pytest.LogCaptureFixture
) -> None:
    one = link()
    one.send(step(0))
    assert one.flush(LONG)
    served.deaf = True
    one.send(step(1))
    assert not one.flush(0.3)
    served.deaf = False
    assert one.flush(LONG)
    assert served.steps("j") == [0, 1]
    assert "the journal cannot be written" in caplog.text


def test_a_flood_holds_up_nobody(served: Served) -> None:
    """One task says 20,000 things without reading an answer; another is heard in between."""
    flood, other = served.connect(hello("worker-1")), served.connect(hello("worker-2"))
    assert other.receive() == Received(0)
    lines = b"".join(flood.line(step(n, "worker-1")) for n in range(20_000))
    sender = threading.Thread(target=flood.send_lines, args=([lines],))
    sender.start()
    served.wait(lambda: len(served.heard) > 1_000)
    other.send(Ready("worker-2"))
    assert other.receive() == Received(1)
    served.wait(lambda: len(served.steps("j")) == 20_000)
    sender.join()
    assert served.steps("j") == list(range(20_000))
    flood.close()
    other.close()


def test_who_takes_nothing_in_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_server, "TAKE_TIMEOUT", 0.1)
    channel = served.connect(hello())
    served.wait(lambda: len(served.heard) == 1)
    for each in "wxy":  # TLS only knows that the last but one waits once another does
        stop = Stop(each * (LINE_LIMIT - 100))
        served.call(partial(served.server.tell, "j", "worker-0", stop))
    served.wait(lambda: any("does not read" in note for note in served.notes))
    served.call(lambda: served.server.tell("j", "worker-0", Stop("z")))
    assert served.connected("j") == set()
    channel.close()


def test_no_more_than_so_much_waits_for_a_task(served: Served) -> None:
    channel = served.connect(hello())
    served.wait(lambda: len(served.heard) == 1)
    for _ in range(8):
        served.call(lambda: served.server.tell("j", "worker-0", Stop("x" * (LINE_LIMIT - 100))))
    assert any("does not read" in note for note in served.notes)
    assert served.connected("j") == set()
    channel.close()


def test_a_task_that_is_killed_leaves_nothing_behind(served: Served) -> None:
    channel = served.connect(hello())
    assert channel.receive() == Received(0)
    # Linger 0: the connection is reset, as by a machine that crashes.
    cast(socket.socket, getattr(channel._socket, "_socket", channel._socket)).setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    channel._socket.close()
    while served.connected("j"):
        pass
    assert served.call(lambda: len(served.server.open)) == 0


class Between(threading.Thread):
    """Somebody on the network who answers tasks with a certificate of its own and passes all on."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        self._target = port
        self.seen = bytearray()

    def run(self) -> None:
        plain, _ = self.listener.accept()
        with (
            new_task_tls().context.wrap_socket(plain, server_side=True) as caller,
            socket.create_connection(("127.0.0.1", self._target), LONG) as sock,
        ):
            onward = TlsStream(sock)
            while data := caller.recv(65536):
                self.seen += data
                onward.sendall(data)
                if not (answer := onward.recv(65536)):
                    return
                caller.sendall(answer)


def test_who_sits_between_task_and_daemon_is_found_out_before_anything_is_said(
    link: Callable[..., CoordinatorLink], served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    if served.tls is None:
        pytest.skip("without TLS there is nothing to bind a proof to: loopback only")
    between = Between(served.port)
    between.start()
    address = ("127.0.0.1", between.port)
    settings = TaskSettings("j", "worker-0", "worker", address, "secret", encrypted=True)
    one = CoordinatorLink(settings, "127.0.0.1:5", lambda _: None)
    one.send(Ready("worker-0"))
    one.start()
    between.join(LONG)
    one.close()
    between.listener.close()
    assert between.seen.count(b"\n") == 1 and b'"kind":"Opening"' in between.seen
    assert "does not know this job's token" in caplog.text
    assert served.heard == []


def test_who_connects_without_tls_is_not_answered(served: Served) -> None:
    if served.tls is None:
        pytest.skip("plain")
    with socket.create_connection(("127.0.0.1", served.port), LONG) as sock:
        sock.sendall(encode(Opening("j", "worker-0", "00" * 32)))
        assert b"Challenge" not in sock.recv(4096)
    assert served.heard == []


def test_handshakes_that_never_end_keep_no_task_out(
    served: Served, link: Callable[..., CoordinatorLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_listener, "HANDSHAKES", 8)
    crowd = [socket.create_connection(("127.0.0.1", served.port), LONG) for _ in range(20)]
    one = link()
    one.send(Ready("worker-0"))
    assert one.flush(LONG)
    if served.tls is not None:
        assert crowd[0].recv(1) == b""
    for sock in crowd:
        sock.close()
