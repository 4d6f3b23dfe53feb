"""A task's link: never in the way, in order, over any number of coordinators."""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from muster.runtime.members import link as link_module
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import TaskSettings
from muster.wire.tasks.channel import Channel
from muster.wire.tasks.introduction import challenge_to, is_answer
from muster.wire.tasks.messages import (
    Captured,
    Changed,
    Hello,
    MemberPlan,
    Message,
    Opening,
    Proof,
    Ready,
    Received,
    StepDone,
    Stop,
)


def step(number: int) -> StepDone:
    return StepDone("worker-0", 1, number, 0, 8, 1.0, 0.1, 0.1, 0.1, 0.1)


def change(formation: int) -> Changed:
    return Changed("worker-0", formation, 5, ("worker-0",), 0.0, "plan")


@dataclass
class Desk:
    """A coordinator's end of the wire, driven by the test."""

    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listener.getsockname()
        return str(host), int(port)

    def accept(self) -> tuple[Channel, Hello]:
        self.listener.settimeout(20)
        sock, _ = self.listener.accept()
        sock.settimeout(20)
        channel = Channel(sock)
        opening = channel.receive()
        assert isinstance(opening, Opening)
        challenge = challenge_to(opening, "secret")
        channel.send(challenge)
        proof = channel.receive()
        assert isinstance(proof, Proof) and is_answer(proof, opening, challenge, "secret")
        hello = channel.receive()
        assert isinstance(hello, Hello)
        return channel, hello


@pytest.fixture
def desk() -> Iterator[Desk]:
    one = Desk()
    yield one
    one.listener.close()


@pytest.fixture
def make(desk: Desk) -> Iterator[Callable[..., CoordinatorLink]]:
    made: list[CoordinatorLink] = []

    def build(on_message: Callable[[Message], None] = lambda _: None) -> CoordinatorLink:
        settings = TaskSettings("j", "worker-0", "worker", desk.address, "secret")
        made.append(CoordinatorLink(settings, "127.0.0.1:9", on_message))
        return made[-1]

    yield build
    for one in made:
        one.close()


def take(channel: Channel, count: int) -> list[Message | None]:
    return [channel.receive() for _ in range(count)]


def test_says_hello_then_everything_in_order(desk: Desk, make: Callable[..., CoordinatorLink]) -> None:
    link = make()
    for number in range(50):
        link.send(step(number))
    link.start()
    channel, hello = desk.accept()
    assert (hello.job, hello.task, hello.address) == (
        "j",
        "worker-0",
        "127.0.0.1:9",
    )
    assert (hello.formation, hello.ready) == (0, False)
    assert take(channel, 50) == [step(number) for number in range(50)]
    assert not link.flush(0)
    channel.send(Received(50))
    assert link.flush(20)
    channel.close()


def test_hands_on_orders(desk: Desk, make: Callable[..., CoordinatorLink]) -> None:
    got: list[Message] = []
    both = threading.Event()

    def note(message: Message) -> None:
        got.append(message)
        if len(got) == 2:
            both.set()

    link = make(note)
    link.start()
    channel, _ = desk.accept()
    # The line in the middle is from a coordinator newer than this task: passed over.
    channel.send_lines(
        [
            channel.line(MemberPlan(1, 0, ())),
            b'{"kind":"Dance"}\n',
            channel.line(Received(0)),
            channel.line(Stop()),
        ]
    )
    assert both.wait(20)
    assert got == [MemberPlan(1, 0, ()), Stop()]
    channel.close()


def test_what_was_not_answered_is_said_again(desk: Desk, make: Callable[..., CoordinatorLink]) -> None:
    link = make()
    link.start()
    channel, _ = desk.accept()
    for number in range(6):
        link.send(step(number))
    assert take(channel, 6) == [step(number) for number in range(6)]
    channel.send(Received(2))  # steps 0 and 1 are dealt with; then the coordinator dies
    channel.close()
    link.send(step(6))
    channel, _ = desk.accept()
    assert take(channel, 5) == [step(number) for number in range(2, 7)]
    channel.send(Received(5))
    assert link.flush(20)
    channel.close()


def test_a_new_coordinator_learns_who_and_where(
    desk: Desk, make: Callable[..., CoordinatorLink]
) -> None:
    link = make()
    link.start()
    channel, _ = desk.accept()
    link.send(Ready("worker-0"))
    link.formation = 3
    link.send(change(3))
    take(channel, 2)
    channel.send(Received(2))
    assert link.flush(20)
    channel.close()
    channel, hello = desk.accept()
    assert (hello.formation, hello.ready) == (3, True)
    assert channel.receive() == change(3)  # answered before, yet this desk may be another
    channel.close()


def test_a_daemon_stopped_and_started_gets_all_in_order(
    make: Callable[..., CoordinatorLink], desk: Desk
) -> None:
    """Ten coordinators on one port, each dying in its turn: together they see every step in order."""
    link = make()
    link.start()
    seen: list[int] = []
    sent = 0
    for life in range(10):
        channel, _ = desk.accept()
        for _ in range(20):
            link.send(step(sent))
            sent += 1
        for count in range(1, 8 + life):
            message = channel.receive()
            assert isinstance(message, StepDone)
            seen.append(message.step)
            if life % 2:
                channel.send(Received(count))
        channel.close()
    channel, _ = desk.accept()
    while not seen or seen[-1] < sent - 1:
        message = channel.receive()
        assert isinstance(message, StepDone)
        seen.append(message.step)
    first_time = [number for place, number in enumerate(seen) if number not in seen[:place]]
    assert first_time == list(range(sent))
    channel.close()


def test_measurements_go_first_when_too_many_wait(
    desk: Desk, make: Callable[..., CoordinatorLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "KEPT", 4)
    link = make()
    for message in (change(2), step(1), step(2), change(3), step(3), change(4)):
        link.send(message)
    assert link.dropped == 2
    link.start()
    channel, _ = desk.accept()
    assert take(channel, 4) == [change(2), change(3), step(3), change(4)]
    channel.close()


def test_what_json_cannot_hold_is_left_out(desk: Desk, make: Callable[..., CoordinatorLink]) -> None:
    link = make()
    link.send(Captured("worker-0", {"bad": object()}))
    link.send(Ready("worker-0"))
    link.start()
    channel, _ = desk.accept()
    assert channel.receive() == Ready("worker-0")
    channel.send(Received(1))
    assert link.flush(20)
    assert link.dropped == 1
    channel.close()


def test_with_the_coordinator_away_nothing_waits() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()[:2]
    link = CoordinatorLink(TaskSettings(coordinator=address), "127.0.0.1:9", lambda _: None)
    link.start()
    link.send(step(1))
    assert not link.flush(0.01)
    link.close()
    link.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("muster-link")]


def test_without_a_coordinator_all_is_nothing() -> None:
    link = CoordinatorLink(TaskSettings(), "127.0.0.1:9", lambda _: None)
    link.start()
    link.send(step(1))
    assert link.flush(0)
    link.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("muster-link")]


def test_close_may_be_called_by_an_order(desk: Desk, make: Callable[..., CoordinatorLink]) -> None:
    closed = threading.Event()
    links: list[CoordinatorLink] = []

    def stop(_: Message) -> None:
        links[0].close()
        closed.set()

    links.append(make(stop))
    links[0].start()
    channel, _ = desk.accept()
    channel.send(Stop())
    assert closed.wait(20)
    assert channel.receive() is None
    channel.close()
