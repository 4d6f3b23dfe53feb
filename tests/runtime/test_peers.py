"""Peer servers and the survivors' meeting, with real sockets in one process."""

import socket
import struct
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

import pytest

from muster.runtime.comm.stream import receive_bytes, receive_json, send_json
from muster.runtime.errors import ExcludedError
from muster.runtime.members.peers import PeerServer, ask, connect
from muster.runtime.members.regroup import CurrentPlans, Meeting
from muster.wire.tasks.job_proof import CALLER, proof_of
from muster.wire.tasks.messages import VERSION, Member, MemberPlan
from tests.runtime.scripts.jobs import LONG

HOST, TOKEN = "127.0.0.1", "a token"
MARK = f"MUSTER{VERSION:02d}".encode()


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


@pytest.mark.parametrize("host", [HOST, "::1"])
def test_a_question_and_its_answer(host: str) -> None:
    peers = PeerServer(host, TOKEN)
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
        assert not drained(stranger)
    assert ask(peers.address, {"kind": "hello"}, TOKEN, LONG) == {"here": True}
    peers.close()


def drained(stranger: socket.socket) -> bytes:
    """What a connection is sent until its end, without the mark that says who listens."""
    stranger.settimeout(LONG)
    data = b""
    with suppress(ConnectionResetError):  # it has not read all that we sent
        while more := stranger.recv(65536):
            data += more
    return data.removeprefix(MARK)


@contextmanager
def post() -> Iterator[PeerServer]:
    peers = PeerServer(HOST, TOKEN)
    peers.on("hello", lambda connection, _request: send_json(connection, {"here": True}))
    peers.start()
    yield peers
    peers.close()


def dialled(peers: PeerServer) -> socket.socket:
    host, _, port = peers.address.rpartition(":")
    return socket.create_connection((host, int(port)), LONG)


def test_a_stranger_costs_a_few_bytes_of_memory() -> None:
    """Eight bytes used to announce a message, and to take 64 MB for it."""
    with post() as peers:
        assert ask(peers.address, {"kind": "hello"}, TOKEN, LONG) == {"here": True}
        tracemalloc.start()
        strangers = [dialled(peers) for _ in range(10)]
        for each in strangers:
            each.sendall(MARK + struct.pack("!Q", 64 * 2**20) + b"x" * 10)
        assert ask(peers.address, {"kind": "hello"}, TOKEN, LONG) == {"here": True}
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()
        for each in strangers:
            each.close()


def test_a_post_proves_itself_before_it_learns_anything() -> None:
    """Whoever listens at the address of a dead peer gets a nonce, and neither token nor request."""
    with socket.create_server((HOST, 0)) as listener, ThreadPoolExecutor(1) as pool:
        address = f"{HOST}:{listener.getsockname()[1]}"
        asking = pool.submit(ask, address, {"kind": "state"}, TOKEN, LONG)
        sock, _ = listener.accept()
        with sock:
            sock.settimeout(LONG)
            told = sock.recv(65536)
            sock.sendall(MARK + bytes(64))
            while more := sock.recv(65536):
                told += more
        with pytest.raises(ConnectionError, match="does not know this job's token"):
            asking.result(LONG)
    assert len(told) == len(MARK) + 32


def test_a_proof_is_good_for_its_own_post_only() -> None:
    """A stranger at a dead peer's address passes the connection on to a living one of the same job."""
    with post() as peers, socket.create_server((HOST, 0)) as relay, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask, f"{HOST}:{relay.getsockname()[1]}", {"kind": "hello"}, TOKEN, LONG)
        near, _ = relay.accept()
        with near, dialled(peers) as far:
            far.sendall(near.recv(65536))
            near.sendall(far.recv(65536))
            with pytest.raises(ConnectionError, match="does not know this job's token"):
                asking.result(LONG)


def test_another_version_is_named() -> None:
    with socket.create_server((HOST, 0)) as listener, ThreadPoolExecutor(1) as pool:
        address = f"{HOST}:{listener.getsockname()[1]}"
        asking = pool.submit(ask, address, {"kind": "state"}, TOKEN, LONG)
        sock, _ = listener.accept()
        with sock:
            sock.sendall(b"MUSTER99")
            with pytest.raises(ConnectionError, match="does not speak version"):
                asking.result(LONG)


def test_who_sends_a_byte_now_and_then_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.runtime.members.peers.ASKING", 0.3)
    with post() as peers, dialled(peers) as stranger:
        stranger.settimeout(0.1)
        stranger.sendall(MARK)
        sent, ended = 0, False
        while not ended and sent < 31:  # of the 32 bytes of a nonce: never silent for long
            try:
                stranger.sendall(b"x")
                sent += 1
                ended = stranger.recv(1) == b""
            except TimeoutError:
                continue
            except ConnectionError:
                ended = True
        assert ended and sent < 31


def test_a_crowd_of_strangers_keeps_no_peer_out_and_makes_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("muster.runtime.members.peers.STRANGERS", 8)
    with post() as peers:
        crowd = [dialled(peers) for _ in range(30)]
        assert ask(peers.address, {"kind": "hello"}, TOKEN, LONG) == {"here": True}
        assert crowd[0].recv(1) == b""
        for each in crowd:
            each.close()
    assert len(caplog.messages) <= 1


def test_a_training_alone_answers_nobody() -> None:
    """Without a coordinator there is no token, and an empty one opens nothing."""
    peers = PeerServer(HOST, "")
    peers.on("hello", lambda connection, _request: send_json(connection, {"here": True}))
    peers.start()
    with pytest.raises(ConnectionError):
        ask(peers.address, {"kind": "hello"}, "", LONG)
    with dialled(peers) as stranger:
        called = bytes(32)
        stranger.sendall(MARK + called)
        heard = receive_bytes(stranger, len(MARK) + 64, time.monotonic() + LONG)[len(MARK) :][:32]
        stranger.sendall(proof_of("", CALLER, called, heard, f"peer {peers.address}"))
        assert not drained(stranger)
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
        one.meeting.stand(CurrentPlans(replace(plan_of(4, three), deadline=2.0)))
    plans = agree(three[:2], patience=0.2)
    assert [names(plan) for plan in plans] == [["worker-0", "worker-1"]] * 2
    for one, plan in zip(three[:2], plans, strict=True):
        assert isinstance(plan, MemberPlan)
        one.meeting.stand(CurrentPlans(plan))
    # It comes later: the others have gone on, and it must not go on alone.
    (late,) = agree(three[2:], patience=0.2)
    assert isinstance(late, ExcludedError)
    assert "worker-0 is in formation 5 without worker-2" in str(late)


def test_without_silent_members_nobody_goes_on_before_the_coordinator_answers(
    three: list[Survivor],
) -> None:
    """They may be on the other side of a cut network, with the coordinator."""
    for one in three:
        one.meeting.stand(CurrentPlans(plan_of(4, three)))
    asked: list[tuple[str, ...]] = []
    answers = iter([False, False, True])

    def ask(silent: tuple[str, ...]) -> Callable[[], bool]:
        asked.append(silent)
        return lambda: next(answers)

    leader = three[0]
    leader.meeting._asked = ask
    three[2].meeting.stand(None)  # it is there, and in no meeting
    plans = agree(three[:2], patience=0.2)
    assert [names(plan) for plan in plans] == [["worker-0", "worker-1"]] * 2
    assert asked == [("worker-2",)]
    assert next(answers, "asked until it answered") == "asked until it answered"


def test_one_that_the_coordinator_has_given_up_is_left_out_though_it_answers(
    three: list[Survivor],
) -> None:
    """The most senior one: the others would wait for it for as long as it answers."""
    for one in three:
        one.meeting.stand(CurrentPlans(plan_of(1, three)))
    for one in three[1:]:
        one.meeting.lose(["worker-0"])
    for one, plan in zip(three[1:], agree(three[1:]), strict=True):
        assert names(plan) == ["worker-1", "worker-2"]
        assert isinstance(plan, MemberPlan)
        one.meeting.stand(CurrentPlans(plan))
    assert isinstance(agree(three[:1])[0], ExcludedError), "it finds the others without it"


def test_who_waits_for_a_leader_that_is_given_up_goes_on_with_the_others(
    three: list[Survivor],
) -> None:
    """The leader has noted it, and is cut off before it has a plan."""
    for one in three:
        one.meeting.stand(CurrentPlans(plan_of(1, three)))
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(one.meeting.agree, LONG) for one in three[1:]]
        until = time.monotonic() + LONG
        while len(three[0].meeting._registered) < 2:
            assert time.monotonic() < until
            time.sleep(0.01)  # between two looks: nobody tells of it
        for one in three[1:]:
            one.meeting.lose(["worker-0"])
        for each in waiting:
            assert names(each.result(LONG)) == ["worker-1", "worker-2"]


def test_the_dead_are_missed_without_asking(three: list[Survivor]) -> None:
    for one in three:
        one.meeting.stand(CurrentPlans(plan_of(4, three)))
    three[0].meeting._asked = lambda silent: pytest.fail(f"asked about {silent}")
    three[2].close()
    assert [names(plan) for plan in agree(three[:2])] == [["worker-0", "worker-1"]] * 2


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
