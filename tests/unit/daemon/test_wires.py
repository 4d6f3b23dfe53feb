"""The daemon's ear: who is let in, what is answered, and that nothing said is lost."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from muster.daemon.tasks import task_connections as wires_module
from muster.daemon.tasks.task_connections import Wires
from muster.runtime.members.link import Link
from muster.runtime.settings import Settings
from muster.wire.channel import LINE_LIMIT, Channel
from muster.wire.messages import (
    Captured,
    Hello,
    Member,
    Message,
    Plan,
    Ready,
    Received,
    StepDone,
    Stop,
)

LONG = 20.0
T = TypeVar("T")


JOBS = {"a": 1, "b": 2, "c": 3, "j": 4}
"""Numbers of jobs, by name."""


def _admit(hello: Hello) -> int | None:
    return JOBS.get(hello.job, 9) if hello.token == "secret" else None


class Ear:
    """Wires in an event loop of their own, as the daemon has them; what they hear is kept."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.heard: list[tuple[int, Message]] = []
        self.notes: list[str] = []
        self.news = threading.Condition()
        self.deaf = False
        self.wires = Wires(_admit, self._hear, self._note)
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.port = self.do(self.wires.start("127.0.0.1", 0))

    def _hear(self, job: int, message: Message) -> None:
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

    def wait(self, met: Callable[[], bool]) -> None:
        with self.news:
            assert self.news.wait_for(met, LONG), (self.notes, self.heard[-3:])

    def steps(self, job: str) -> list[int]:
        number = JOBS[job]
        return [m.step for each, m in list(self.heard) if each == number and isinstance(m, StepDone)]

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
        self.do(self.wires.close())
        self.wires = Wires(_admit, self._hear, self._note)
        assert self.do(self.wires.start("127.0.0.1", self.port)) == self.port

    def close(self) -> None:
        self.do(self.wires.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture
def ear() -> Iterator[Ear]:
    one = Ear()
    yield one
    one.close()


@pytest.fixture
def link(ear: Ear) -> Iterator[Callable[..., Link]]:
    made: list[Link] = []

    def make(
        job: str = "j",
        task: str = "worker-0",
        token: str = "secret",
        on: Callable[[Message], None] = lambda _: None,
    ) -> Link:
        made.append(
            Link(Settings(job, task, "worker", ("127.0.0.1", ear.port), token), "127.0.0.1:5", on)
        )
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def hello(task: str = "worker-0", token: str = "secret", job: str = "j", version: int = 1) -> Hello:
    return Hello(job, task, "worker", "127.0.0.1:5", 7, token, version=version)


def step(number: int, task: str = "worker-0") -> StepDone:
    return StepDone(task, 1, number, 0, 8, 1.0, 0.1, 0.1, 0.1, 0.1)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (hello(token="guess"), "wrong token"),
        (hello(task=""), "not a task of ours"),
        (hello(version=99), "speaks version 99"),
        (Ready("worker-0"), "does not say hello"),
        (b"GET / HTTP/1.1\r\n\r\n", "not JSON"),
        (b"\x16\x03\x01\x00\n", "not JSON"),
        (b"x" * 200_000, "above the limit"),
    ],
)
def test_strangers_are_turned_away(ear: Ear, first: Message | bytes, words: str) -> None:
    channel = ear.connect(first)
    assert channel.receive() is None
    ear.wait(lambda: any(words in note for note in ear.notes))
    channel.close()
    assert ear.heard == []
    assert ear.call(lambda: ear.wires.connected(JOBS["j"])) == set()


def test_who_says_nothing_is_not_waited_for(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires_module, "HELLO_TIMEOUT", 0.05)
    channel = ear.connect(b"")
    assert channel.receive() is None
    assert any("says nothing" in note for note in ear.notes)
    channel.close()


def test_each_message_is_answered_and_a_bad_one_passed_over(ear: Ear) -> None:
    channel = ear.connect(hello())
    assert channel.receive() == Received(0)
    # An order is not a task's to give, and a second hello not its to say.
    said: tuple[Message, ...] = (Stop("x"), hello("worker-9"), Ready("worker-0"))
    lines = [b'{"kind":"Dance"}\n', *(channel.line(message) for message in said)]
    channel.send_lines(lines)
    answers: list[Message | None] = []
    while not answers or answers[-1] != Received(4):
        answers.append(channel.receive())
    assert ear.heard == [(JOBS["j"], hello()), (JOBS["j"], Ready("worker-0"))]
    assert ear.notes == ["unknown kind of message: 'Dance'"]
    channel.close()


def test_a_line_in_many_pieces_and_many_lines_in_one(ear: Ear) -> None:
    channel = ear.connect(hello())
    shape = {"parameters": ["x" * 100] * 5_000}
    big = channel.line(Captured("worker-0", shape))
    channel.send_lines([big, *(channel.line(step(n)) for n in range(300)), big])
    ear.wait(lambda: len(ear.heard) == 303)
    assert ear.steps("j") == list(range(300))
    assert ear.heard[1] == ear.heard[-1] == (JOBS["j"], Captured("worker-0", shape))
    channel.close()


def test_a_line_without_an_end_is_cut_off(ear: Ear) -> None:
    channel = ear.connect(hello())
    assert channel.receive() == Received(0)
    with pytest.raises(OSError):
        for _ in range(2 * LINE_LIMIT // 65536):
            channel.send_lines([b"x" * 65536])
        channel.receive()
        channel.send_lines([b"x"])
    assert any("above the limit" in note for note in ear.notes)
    channel.close()


def test_jobs_of_the_same_tasks_are_kept_apart(ear: Ear, link: Callable[..., Link]) -> None:
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
    assert (ear.steps("a"), ear.steps("b")) == ([0], [1])
    assert ear.call(lambda: ear.wires.connected(JOBS["a"])) == {"worker-0"}
    plan = Plan(1, 0, (Member("worker-0", "worker", "h:1"),))
    ear.call(lambda: ear.wires.tell(JOBS["b"], "worker-0", plan))
    ear.call(lambda: ear.wires.tell(JOBS["a"], "worker-1", plan))  # nobody of that name
    ear.call(lambda: ear.wires.tell(JOBS["c"], "worker-0", plan))
    assert there.acquire(timeout=LONG)
    assert got == {"a": [], "b": [plan]}


def test_what_no_line_can_hold_is_not_told(ear: Ear) -> None:
    channel = ear.connect(hello())
    assert channel.receive() == Received(0)
    ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Stop("x" * LINE_LIMIT)))
    ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Captured("worker-0", {"a": object()})))
    ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Stop("enough")))
    assert channel.receive() == Stop("enough")
    assert "above the limit" in ear.notes[0]
    assert "cannot be written" in ear.notes[1]
    channel.close()


def test_a_newer_connection_of_a_task_replaces_the_older(ear: Ear) -> None:
    older = ear.connect(hello())
    assert older.receive() == Received(0)
    newer = ear.connect(hello())
    assert newer.receive() == Received(0)
    assert older.receive() is None
    ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Stop("enough")))
    assert newer.receive() == Stop("enough")
    assert ear.call(lambda: ear.wires.connected(JOBS["j"])) == {"worker-0"}
    older.close()
    newer.close()


def test_dropped_is_told_first(ear: Ear) -> None:
    channel = ear.connect(hello())
    assert channel.receive() == Received(0)
    ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Stop("over")))
    ear.call(lambda: ear.wires.drop(JOBS["j"]))
    assert channel.receive() == Stop("over")
    assert channel.receive() is None
    assert ear.call(lambda: ear.wires.connected(JOBS["j"])) == set()
    channel.close()


def test_nothing_is_lost_over_any_number_of_daemons(ear: Ear, link: Callable[..., Link]) -> None:
    links = [link("j", f"worker-{i}") for i in range(3)]
    for life in range(4):
        for number in range(500 * life, 500 * life + 500):
            for i, one in enumerate(links):
                one.send(step(number, f"worker-{i}"))
        ear.wait(lambda: len(ear.steps("j")) > 500 * life)  # noqa: B023
        ear.again()
    assert all(one.flush(LONG) for one in links)
    for i in range(3):
        said = [m.step for _, m in ear.heard if isinstance(m, StepDone) and m.task == f"worker-{i}"]
        # Each at least once, and for the first time in their order.
        assert list(dict.fromkeys(said)) == list(range(2000))


def test_what_could_not_be_dealt_with_is_said_again(
    ear: Ear, link: Callable[..., Link], caplog: pytest.LogCaptureFixture
) -> None:
    one = link()
    one.send(step(0))
    assert one.flush(LONG)
    ear.deaf = True
    one.send(step(1))
    assert not one.flush(0.3)
    ear.deaf = False
    assert one.flush(LONG)
    assert ear.steps("j") == [0, 1]
    assert "the journal cannot be written" in caplog.text


def test_a_flood_holds_up_nobody(ear: Ear) -> None:
    """One task says 20,000 things without reading an answer; another is heard in between."""
    flood, other = ear.connect(hello("worker-1")), ear.connect(hello("worker-2"))
    assert other.receive() == Received(0)
    lines = b"".join(flood.line(step(n, "worker-1")) for n in range(20_000))
    sender = threading.Thread(target=flood.send_lines, args=([lines],))
    sender.start()
    ear.wait(lambda: len(ear.heard) > 1_000)
    other.send(Ready("worker-2"))
    assert other.receive() == Received(1)
    ear.wait(lambda: len(ear.steps("j")) == 20_000)
    sender.join()
    assert ear.steps("j") == list(range(20_000))
    flood.close()
    other.close()


def test_who_takes_nothing_in_is_cut_off(ear: Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wires_module, "TAKE_TIMEOUT", 0.1)
    channel = ear.connect(hello())
    ear.wait(lambda: len(ear.heard) == 1)
    ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Stop("x" * (LINE_LIMIT - 100))))
    ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Stop("y" * (LINE_LIMIT - 100))))
    ear.wait(lambda: any("takes nothing in" in note for note in ear.notes))
    ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Stop("z")))
    assert ear.call(lambda: ear.wires.connected(JOBS["j"])) == set()
    channel.close()


def test_no_more_than_so_much_waits_for_a_task(ear: Ear) -> None:
    channel = ear.connect(hello())
    ear.wait(lambda: len(ear.heard) == 1)
    for _ in range(8):
        ear.call(lambda: ear.wires.tell(JOBS["j"], "worker-0", Stop("x" * (LINE_LIMIT - 100))))
    assert any("takes nothing in" in note for note in ear.notes)
    assert ear.call(lambda: ear.wires.connected(JOBS["j"])) == set()
    channel.close()


def test_a_task_that_is_killed_leaves_nothing_behind(ear: Ear) -> None:
    channel = ear.connect(hello())
    assert channel.receive() == Received(0)
    # Linger 0: the connection is reset, as by a machine that crashes.
    channel._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    channel._socket.close()
    while ear.call(lambda: ear.wires.connected(JOBS["j"])):
        pass
    assert ear.call(lambda: len(ear.wires.open)) == 0
