"""Who is admitted, what is acknowledged, and that no message is lost."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import TaskSettings
from muster.wire import task_server
from muster.wire.channel import LINE_LIMIT, Channel
from muster.wire.messages import (
    VERSION,
    Captured,
    Hello,
    Member,
    MemberPlan,
    Message,
    Ready,
    Received,
    StepDone,
    Stop,
)
from muster.wire.task_server import TaskServer

LONG = 20.0
T = TypeVar("T")


class Served:
    """A server in an event loop of its own; keeps what it hears."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.heard: list[tuple[str, Message]] = []
        self.notes: list[str] = []
        self.news = threading.Condition()
        self.deaf = False
        self.server = self._serve()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.port = self.do(self.server.start("127.0.0.1", 0))

    def _serve(self) -> TaskServer[str]:
        def admit(hello: Hello) -> str | None:
            return hello.job if hello.token == "secret" else None

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
        channel = Channel(sock)
        if isinstance(first, bytes):
            sock.sendall(first)
        else:
            channel.send(first)
        return channel

    def again(self) -> None:
        """The daemon dies and another begins at the same port."""
        self.do(self.server.close())
        self.server = self._serve()
        assert self.do(self.server.start("127.0.0.1", self.port)) == self.port

    def close(self) -> None:
        self.do(self.server.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served()
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
        made.append(
            CoordinatorLink(
                TaskSettings(job, task, "worker", ("127.0.0.1", served.port), token), "127.0.0.1:5", on
            )
        )
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def hello(
    task: str = "worker-0", token: str = "secret", job: str = "j", version: int = VERSION
) -> Hello:
    return Hello(job, task, "worker", "127.0.0.1:5", 7, token, version=version)


def step(number: int, task: str = "worker-0") -> StepDone:
    return StepDone(task, 1, number, 0, 8, 1.0, 0.1, 0.1, 0.1, 0.1)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (hello(token="guess"), "wrong token"),
        (hello(task=""), "unknown task"),
        (hello(version=99), "protocol version 99"),
        (Ready("worker-0"), "not a Hello"),
        (b"GET / HTTP/1.1\r\n\r\n", "not JSON"),
        (b"\x16\x03\x01\x00\n", "not JSON"),
        (b"x" * 200_000, "above the limit"),
    ],
)
def test_strangers_are_turned_away(served: Served, first: Message | bytes, words: str) -> None:
    channel = served.connect(first)
    assert channel.receive() is None
    served.wait(lambda: any(words in note for note in served.notes))
    channel.close()
    assert served.heard == []
    assert served.connected("j") == set()


def test_who_says_nothing_is_not_waited_for(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_server, "HELLO_TIMEOUT", 0.05)
    channel = served.connect(b"")
    assert channel.receive() is None
    assert any("no Hello" in note for note in served.notes)
    channel.close()


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
    served.call(lambda: served.server.tell("j", "worker-0", Stop("x" * (LINE_LIMIT - 100))))
    served.call(lambda: served.server.tell("j", "worker-0", Stop("y" * (LINE_LIMIT - 100))))
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
    channel._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    channel._socket.close()
    while served.connected("j"):
        pass
    assert served.call(lambda: len(served.server.open)) == 0
