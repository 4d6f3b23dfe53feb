"""Streams and notes over one connection, whatever pieces its bytes come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.wire.visits.frames import (
    HEADER,
    LONGEST,
    WINDOW,
    BadFrameError,
    FrameKind,
    Frames,
    StreamData,
    StreamEnd,
    StreamNote,
)

Sent = list[tuple[int, bytes]]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=300)), max_size=30),
    st.integers(1, 97),
)
def test_every_stream_arrives_whole_and_in_order(sent: Sent, piece: int) -> None:
    sender, receiver = Frames(), Frames()
    for number, (stream, data) in enumerate(sent):
        sender.send(stream, data)
        sender.note(number=number)
    sender.end(2)
    data, found = bytes(sender.outgoing), []
    for begin in range(0, len(data), piece):
        found += receiver.receive(data[begin : begin + piece])
    for stream in range(4):
        came = b"".join(
            each.data for each in found if isinstance(each, StreamData) and each.stream == stream
        )
        assert came == b"".join(data for each, data in sent if each == stream)
    notes = [each.record["number"] for each in found if isinstance(each, StreamNote)]
    assert notes == list(range(len(sent)))
    assert found[-1] == StreamEnd(2)


@given(st.lists(st.integers(1, 50_000), max_size=60))
def test_a_sender_is_never_more_than_a_window_ahead(sizes: list[int]) -> None:
    sender, receiver = Frames(), Frames()
    unused = 0
    for size in sizes:
        count = min(size, sender.room(1))
        sender.send(1, bytes(count))
        unused += count
        receiver.receive(bytes(sender.outgoing))
        sender.outgoing.clear()
        assert unused <= WINDOW
        if unused > WINDOW // 2:
            receiver.used(1, unused)
            unused = 0
            sender.receive(bytes(receiver.outgoing))
            receiver.outgoing.clear()
            assert sender.room(1) == WINDOW
            assert sender.room(2) == WINDOW


def test_a_stream_that_nobody_reads_leaves_room_for_others() -> None:
    sender = Frames()
    sender.send(1, bytes(WINDOW))
    assert (sender.room(1), sender.room(2)) == (0, WINDOW)
    with pytest.raises(ValueError, match="room for 0"):
        sender.send(1, b"x")


@pytest.mark.parametrize(
    "data",
    [
        HEADER.pack(9, 0, 0),
        HEADER.pack(FrameKind.DATA, 0, LONGEST + 1),
        HEADER.pack(FrameKind.NOTE, 0, 2) + b"[]",
        HEADER.pack(FrameKind.NOTE, 0, 1) + b"{",
        (HEADER.pack(FrameKind.DATA, 0, LONGEST) + bytes(LONGEST)) * 5,
    ],
    ids=["kind", "too long", "no object", "no JSON", "beyond the window"],
)
def test_what_breaks_the_protocol_is_refused(data: bytes) -> None:
    with pytest.raises(BadFrameError):
        Frames().receive(data)


def test_a_window_cannot_be_given_back_twice() -> None:
    sender, receiver = Frames(), Frames()
    sender.send(1, b"abc")
    receiver.receive(bytes(sender.outgoing))
    receiver.used(1, 3)
    sender.receive(bytes(receiver.outgoing))
    with pytest.raises(BadFrameError, match="more than were sent"):
        sender.receive(bytes(receiver.outgoing))
