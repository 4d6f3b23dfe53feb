"""Peer servers and the survivors' meeting, with real sockets in one process."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from muster.runtime.comm.stream import receive_json, send_json
from muster.runtime.errors import ExcludedError
from muster.runtime.members.peers import PeerServer, ask, connect
from muster.runtime.members.regroup import CurrentPlans, Meeting
from muster.wire.messages import Member, MemberPlan
from tests.runtime.scripts.jobs import LONG

HOST, TOKEN = "127.0.0.1", "a token"


class Survivor:
    """A task as its peers see it."""

    def __init__(self, task: str) -> None:
        self.peers = PeerServer(HOST, TOKEN)
        role = "server" if task.startswith("server") else "worker"
        self.me = Member(task, role, self.peers.address)
        self.meeting = Meeting(self.peers, self.me, TOKEN)
        self.peers.start()

    def close(self) -> None:
        self.meeting.close()
        self.peers.close()


@pytest.fixture
def three() -> Iterator[list[Survivor]]:
    with ExitStack() as stack:
        made = [Survivor(f"worker-{number}") for number in range(3)]
        for one in made:
            stack.callback(one.close)
        yield made


def plan_of(formation: int, members: list[Survivor], after: int = 0) -> MemberPlan:
    return MemberPlan(formation, after, tuple(one.me for one in members))


def agree(survivors: list[Survivor], patience: float = LONG) -> list[MemberPlan | ExcludedError]:
    """All meet at once; what each comes out with."""

    def one(survivor: Survivor) -> MemberPlan | ExcludedError:
        try:
            return survivor.meeting.agree(patience)
        except ExcludedError as problem:
            return problem

    with ThreadPoolExecutor(len(survivors)) as pool:
        return list(pool.map(one, survivors))


def names(plan: MemberPlan | ExcludedError) -> list[str]:
    assert isinstance(plan, MemberPlan)
    return [member.task for member in plan.members]


# --- the peers


def test_a_question_and_its_answer() -> None:
    peers = PeerServer(HOST, TOKEN)
    peers.on("twice", lambda connection, request: send_json(connection, {"it": 2 * request["number"]}))
    peers.start()
    assert ask(peers.address, {"kind": "twice", "number": 21}, TOKEN, LONG) == {"it": 42}
    peers.close()


@pytest.mark.parametrize(("kind", "token"), [("twice", "another"), ("twice", ""), ("unknown", TOKEN)])
def test_strangers_get_no_answer(kind: str, token: str) -> None:
    asked: list[str] = []
    peers = PeerServer(HOST, TOKEN)
    peers.on("twice", lambda _connection, request: asked.append(str(request)))
    peers.start()
    with pytest.raises(ConnectionError):
        ask(peers.address, {"kind": kind}, token, LONG)
    assert asked == []
    peers.close()


def test_nonsense_does_not_hurt_it() -> None:
    peers = PeerServer(HOST, TOKEN)
    peers.on("hello", lambda connection, _request: send_json(connection, {"here": True}))
    peers.start()
    host, _, port = peers.address.rpartition(":")
    with socket.create_connection((host, int(port))) as stranger:
        stranger.sendall(b"\x00" * 7 + b"\x03[1]")
        assert stranger.recv(1) == b""
    assert ask(peers.address, {"kind": "hello"}, TOKEN, LONG) == {"here": True}
    peers.close()


def test_a_closed_post_refuses() -> None:
    peers = PeerServer(HOST, TOKEN)
    peers.start()
    peers.close()
    with pytest.raises(ConnectionRefusedError):
        ask(peers.address, {"kind": "any"}, TOKEN, LONG)


# --- the meeting


def test_all_survive(three: list[Survivor]) -> None:
    for one in three:
        one.meeting.stand(CurrentPlans(plan_of(4, three)))
    plans = agree(three)
    assert [names(plan) for plan in plans] == [["worker-0", "worker-1", "worker-2"]] * 3
    assert {(plan.formation, plan.after) for plan in plans if isinstance(plan, MemberPlan)} == {(5, 4)}


@pytest.mark.parametrize("dead", [0, 1, 2])
def test_a_dead_member_is_known_at_once(dead: int, three: list[Survivor]) -> None:
    for one in three:
        one.meeting.stand(CurrentPlans(plan_of(4, three)))
    three[dead].close()
    left = [one for number, one in enumerate(three) if number != dead]
    began = time.monotonic()
    plans = agree(left, patience=LONG)
    assert time.monotonic() - began < LONG / 2  # its refusal is enough, nobody's patience ran out
    assert [names(plan) for plan in plans] == [[one.me.task for one in left]] * 2
    assert plans[0] == plans[1]


def test_one_that_answers_and_does_not_come_is_left_out(three: list[Survivor]) -> None:
    for one in three:
        one.meeting.stand(CurrentPlans(plan_of(4, three)))
    plans = agree(three[:2], patience=0.2)
    assert [names(plan) for plan in plans] == [["worker-0", "worker-1"]] * 2
    for one, plan in zip(three[:2], plans, strict=True):
        assert isinstance(plan, MemberPlan)
        one.meeting.stand(CurrentPlans(plan))
    # It comes later: the others have gone on, and it must not go on alone.
    (late,) = agree(three[2:], patience=0.2)
    assert isinstance(late, ExcludedError)
    assert "worker-0 is in formation 5 without worker-2" in str(late)


def test_half_of_them_have_switched_already(three: list[Survivor]) -> None:
    """A step apart: one is in the new formation, the other still in that before it."""
    before, after = plan_of(4, three[:2]), plan_of(5, three, after=4)
    three[0].meeting.stand(CurrentPlans(after, before))
    three[1].meeting.stand(CurrentPlans(before))
    three[2].close()
    plans = agree(three[:2])
    assert [names(plan) for plan in plans] == [["worker-0", "worker-1"]] * 2
    # Above every formation that one of them was in.
    assert {plan.formation for plan in plans if isinstance(plan, MemberPlan)} == {6}


def test_a_server_never_leads() -> None:
    worker, server = Survivor("worker-1"), Survivor("server-0")
    for one in (worker, server):
        one.meeting.stand(CurrentPlans(plan_of(2, [worker, server])))
    assert [names(plan) for plan in agree([worker, server])] == [["worker-1", "server-0"]] * 2
    worker.close()
    (alone,) = agree([server])
    assert isinstance(alone, ExcludedError)
    server.close()


def test_a_registration_of_the_past_is_refused(three: list[Survivor]) -> None:
    three[0].meeting.stand(CurrentPlans(plan_of(7, three[:2])))
    request = {"kind": "regroup", "task": "worker-2", "formation": 4}
    with connect(three[0].me.address, request, TOKEN, LONG) as connection:
        assert receive_json(connection) == {"excluded": 7}
    request = {"kind": "regroup", "task": "worker-1", "formation": 7}
    with connect(three[0].me.address, request, TOKEN, LONG) as connection:
        assert receive_json(connection) == {"noted": True}
        three[0].meeting.close()  # who waits there is sent away
        with pytest.raises(ConnectionError):
            receive_json(connection)


def test_two_plans_of_one_number(three: list[Survivor]) -> None:
    """The coordinator made plan 5 with two joiners; survivors of a death made one without them."""
    holder, *joiners = three
    holder.meeting.stand(CurrentPlans(plan_of(5, [holder])))
    for joiner in joiners:
        joiner.meeting.stand(CurrentPlans(plan_of(5, three)))
        with pytest.raises(ExcludedError):
            joiner.meeting.follow()
        with pytest.raises(ExcludedError):
            joiner.meeting.agree(LONG)


def test_who_has_no_state_never_leads(three: list[Survivor]) -> None:
    three[0].close()
    three[1].meeting.stand(CurrentPlans(plan_of(5, three)))
    assert three[1].meeting.follow() is None
