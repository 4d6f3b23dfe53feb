"""Bytes between descriptors and streams, over a real pair of sockets."""

import os
import socket
import threading
from pathlib import Path

import pytest

from muster.client.inside.command import DetachKeys, keys_of
from muster.wire.visits.copying import CopyError, pack, unpack
from muster.wire.visits.frames import StreamNote
from muster.wire.visits.pump import Pump, part


def test_a_stream_that_is_not_read_does_not_hold_up_another() -> None:
    ours, theirs = socket.socketpair()
    stuck, slow = os.pipe()
    done, quick = os.pipe()
    data = bytes(3_000_000)
    sender = Pump(ours, lambda note: None)

    def send() -> None:
        for stream in (1, 2):
            read, write = os.pipe()
            threading.Thread(target=_write, args=(write, data), daemon=True).start()
            sender.feed(stream, read)
        sender.run()

    threads = [threading.Thread(target=send)]
    receiver = Pump(theirs, lambda note: None)
    os.set_blocking(slow, False)
    receiver.drain(1, slow)
    receiver.drain(2, quick, ended=lambda: os.close(quick))
    threads.append(threading.Thread(target=receiver.run))
    for thread in threads:
        thread.start()
    with open(done, "rb") as file:  # noqa: PTH123
        assert len(file.read()) == len(data)
    theirs.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join()
    for sock in (ours, theirs):
        sock.close()
    for each in (stuck, slow):
        os.close(each)


def _write(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb") as file:
        file.write(data)


def test_the_last_word_is_heard_by_one_that_still_has_something_to_say() -> None:
    ours, theirs = socket.socketpair()
    notes: list[StreamNote] = []
    sender = Pump(ours, lambda note: None)
    sender.frames.note(what="exit", code=0)
    sender.stop()
    sender.run()
    ours.close()
    receiver = Pump(theirs, notes.append)
    receiver.frames.note(what="size")
    receiver.run()
    assert [note.record["what"] for note in notes] == ["exit"]
    theirs.close()


def test_one_that_parts_takes_what_is_on_its_way_to_it() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(b"last words")
    parting = threading.Thread(target=part, args=(ours,))
    parting.start()
    assert (theirs.recv(100), theirs.recv(100)) == (b"last words", b"")
    theirs.sendall(b"on its way")
    theirs.close()
    parting.join()
    ours.close()


def test_what_came_is_written_before_the_end_even_if_the_other_end_is_gone() -> None:
    ours, theirs = socket.socketpair()
    notes: list[StreamNote] = []
    sender = Pump(ours, lambda note: None)
    sender.put(1, b"last words")
    sender.frames.note(what="exit")
    sender.stop()
    sender.run()
    ours.close()
    read, write = os.pipe()
    receiver = Pump(theirs, notes.append, writes_rest=True)
    receiver.drain(1, write)
    receiver.run()
    os.close(write)
    with open(read, "rb") as file:  # noqa: PTH123
        assert file.read() == b"last words"
    assert [each.record for each in notes] == [{"what": "exit"}]
    theirs.close()


def test_detach_keys_are_found_across_reads_and_others_pass() -> None:
    pressed: list[bool] = []
    keys = DetachKeys(keys_of("ctrl-p,ctrl-q"), lambda: pressed.append(True))
    assert (keys(b"ls\x10"), keys(b"\x10"), keys(b"x")) == (b"ls", b"\x10", b"\x10x")
    assert not pressed
    assert (keys(b"a\x10"), keys(b"\x11b")) == (b"a", b"")
    assert pressed


def test_a_folder_is_packed_and_unpacked_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "here/in").mkdir(parents=True)
    (tmp_path / "here/in/file").write_bytes(b"content")
    (tmp_path / "here/absolute").symlink_to("/etc")
    packed, missed = tmp_path / "packed", list[str]()
    with packed.open("wb") as out:
        pack(tmp_path / "here", out, missed.append)
    with packed.open("rb") as source:
        unpack(source, tmp_path / "there", missed.append)
    assert (tmp_path / "there/in/file").read_bytes() == b"content"
    assert missed == ["there/absolute: skipped: a link that leads out of the folder"]


def test_a_slash_at_the_end_of_a_target_makes_it_a_folder(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("a")
    packed, missed = tmp_path / "packed", list[str]()
    with packed.open("wb") as out:
        pack(tmp_path / "words.txt", out, missed.append)
    for _ in range(2):
        with packed.open("rb") as source:
            unpack(source, tmp_path / "data", missed.append, into=True)
    assert (tmp_path / "data/words.txt").read_text() == "a"
    with packed.open("rb") as source, pytest.raises(CopyError, match="is a file, not a folder"):
        unpack(source, tmp_path / "words.txt", missed.append, into=True)
    assert missed == []
