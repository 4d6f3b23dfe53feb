"""The coordinator's end of the wire: who is let in, what is answered, what a restart keeps."""

import socket
import threading
from collections.abc import Iterator

import pytest

from muster.roster.roster import Roster
from muster.runtime.launch.coordinator import Coordinator
from muster.runtime.launch.history import History
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import TaskSettings
from muster.wire.tasks.channel import Channel
from muster.wire.tasks.introduction import UntrustedError, introduce
from muster.wire.tasks.messages import (
    Changed,
    Hello,
    MemberPlan,
    Ready,
    Received,
    StepDone,
    Stop,
)

LONG = 20.0


class Desk:
    """A coordinator that records the tasks it would start."""

    def __init__(
        self, address: tuple[str, int] = ("127.0.0.1", 0), roster: Roster | None = None
    ) -> None:
        self.begun: list[str] = []
        self.one = Coordinator(
            "j",
            "secret",
            roster or Roster(),
            History(),
            lambda task, _: self.begun.append(task),
            lambda _: None,
            address,
        )

    def connect(self, hello: Hello, token: str = "secret") -> Channel:
        channel = Channel(socket.create_connection(self.one.address, LONG))
        try:
            introduce(channel, "", hello.job, hello.task, token)
        except OSError:
            channel.close()
            raise
        channel._socket.settimeout(LONG)
        channel.send(hello)
        return channel

    def wait_note(self, words: str) -> None:
        with self.one.changed:
            notes = self.one.history.notes
            assert self.one.changed.wait_for(lambda: any(words in note for note in notes), LONG), notes


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.one.close()


def hello(task: str = "worker-0", job: str = "j") -> Hello:
    return Hello(job, task, "worker", "127.0.0.1:5", 7)


@pytest.mark.parametrize(("job", "token"), [("j", "guess"), ("other", "secret")])
def test_strangers_are_turned_away(desk: Desk, job: str, token: str) -> None:
    with pytest.raises(UntrustedError, match="does not know this job's token"):
        desk.connect(hello(job=job), token)
    assert desk.one.roster.used == set()


def test_plans_go_to_who_is_there_and_to_who_comes_back(desk: Desk) -> None:
    desk.one.resize(1)
    assert desk.begun == ["worker-0"]
    channel = desk.connect(hello())
    channel.send(Ready("worker-0"))
    heard = [channel.receive()]
    while not isinstance(heard[-1], MemberPlan):
        heard.append(channel.receive())
    channel.close()
    # The plan may have been on its way when the connection broke.
    channel = desk.connect(hello())
    assert [channel.receive(), channel.receive()] == [Received(0), heard[-1]]
    desk.one.stop("enough")
    assert channel.receive() == Stop("enough")
    channel.close()


def test_members_of_before_a_restart_are_not_those_of_today(desk: Desk) -> None:
    """A survivor's last word of its members bears the number that the first plan after it has, too."""
    channel = desk.connect(hello("worker-1"))
    assert channel.receive() == Received(0)
    desk.one.roster.retired.add("worker-1")
    channel.send(Changed("worker-1", 2, 5, ("worker-1",), 0.1, "failure"))
    assert channel.receive() == Received(1)
    assert desk.one.history.members == ()
    channel.close()


def test_a_link_outlives_its_coordinators() -> None:
    """Five coordinators at one address, one after the other: together they hear every step."""
    desk = Desk()
    address = desk.one.address
    link = CoordinatorLink(
        TaskSettings("j", "worker-0", "worker", address, "secret"), "127.0.0.1:5", lambda _: None
    )
    link.start()
    heard: set[int] = set()
    for life in range(5):
        for step in range(100 * life, 100 * life + 100):
            link.send(StepDone("worker-0", 1, step, 0, 1, 0.5, 0, 0, 0, 0))
        with desk.one.changed:
            assert desk.one.changed.wait_for(lambda: desk.one.history.step > 100 * life + 10, LONG)  # noqa: B023
        desk.one.close()
        heard |= set(desk.one.history.losses)
        desk = Desk(address)
    assert link.flush(LONG)
    heard |= set(desk.one.history.losses)
    link.close()
    desk.one.close()
    assert heard == set(range(500))
    assert not [one for one in threading.enumerate() if one.name.startswith("muster-link")]
