"""Messages over a socket: whole, in order, bounded."""

import socket
import threading
from collections.abc import Iterator

import pytest

from muster.wire.tasks.channel import Channel, LineTooLongError
from muster.wire.tasks.codec import BadMessageError, encode
from muster.wire.tasks.messages import Captured, Received, Stop


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    for end in (left, right):
        end.settimeout(10)
    with left, right:
        yield left, right


def test_messages_arrive_in_order(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = Channel(pair[0]), Channel(pair[1])
    left.send(Received(1), Stop("enough"))
    left.send(Received(2))
    assert [right.receive() for _ in range(3)] == [Received(1), Stop("enough"), Received(2)]


def test_a_line_may_come_in_pieces(pair: tuple[socket.socket, socket.socket]) -> None:
    right = Channel(pair[1])
    line = encode(Stop("in pieces"))

    def feed() -> None:
        for place in range(len(line)):
            pair[0].sendall(line[place : place + 1])

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert right.receive() == Stop("in pieces")
    feeder.join(10)


def test_the_end_is_none_and_a_cut_line_is_dropped(pair: tuple[socket.socket, socket.socket]) -> None:
    right = Channel(pair[1])
    pair[0].sendall(encode(Received(1)) + b'{"kind":"Rec')
    pair[0].close()
    assert right.receive() == Received(1)
    assert right.receive() is None
    assert right.receive() is None


def test_close_frees_who_waits(pair: tuple[socket.socket, socket.socket]) -> None:
    right = Channel(pair[1])
    got: list[object] = ["nothing yet"]
    reader = threading.Thread(target=lambda: got.append(right.receive()))
    reader.start()
    right.close()
    right.close()
    reader.join(10)
    assert got == ["nothing yet", None]


def test_after_a_bad_line_comes_the_next(pair: tuple[socket.socket, socket.socket]) -> None:
    right = Channel(pair[1])
    pair[0].sendall(b"noise\n" + encode(Received(7)))
    with pytest.raises(BadMessageError):
        right.receive()
    assert right.receive() == Received(7)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_above_the_limit_is_refused(
    pair: tuple[socket.socket, socket.socket], end: bytes
) -> None:
    right = Channel(pair[1], limit=100)
    pair[0].sendall(b"x" * 101 + end)
    with pytest.raises(LineTooLongError, match="limit of 100"):
        right.receive()


def test_a_message_above_the_limit_is_not_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = Channel(pair[0], limit=100), Channel(pair[1])
    with pytest.raises(LineTooLongError, match=r"Captured takes \d+ bytes, above the limit of 100"):
        left.send(Received(1), Captured("worker-0", {"layer": "x" * 100}))
    left.send(Received(2))
    assert right.receive() == Received(2)


def test_senders_do_not_mix_their_lines(pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = Channel(pair[0]), Channel(pair[1])

    def say(first: int) -> None:
        for count in range(first, first + 200):
            left.send(Received(count))

    senders = [threading.Thread(target=say, args=(200 * number,)) for number in range(4)]
    for sender in senders:
        sender.start()
    counts = {message.count for _ in range(800) if isinstance(message := right.receive(), Received)}
    for sender in senders:
        sender.join(10)
    assert counts == set(range(800))
