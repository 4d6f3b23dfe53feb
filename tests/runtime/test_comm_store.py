"""The store at which members find each other."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.store import StoreClient
from muster.runtime.comm.stream import send_json
from muster.runtime.errors import BrokenGroupError
from muster.runtime.members.peers import connect
from tests.runtime.comm_members import HOST, TOKEN, StoreServer


@pytest.fixture
def server() -> Iterator[StoreServer]:
    one = StoreServer()
    yield one
    one.close()


def test_values_are_bytes_and_counts_are_sums(server: StoreServer) -> None:
    ann, bob = (server.client() for _ in range(2))
    ann.set("a", b"\x00\xff")
    assert bob.get("a") == b"\x00\xff"
    ann.set("text", "words")
    assert bob.get("text") == b"words"
    assert [ann.add("n", 2), bob.add("n", -5), ann.add("n", 0)] == [2, -3, -3]
    assert bob.check(["a", "text"]) and not bob.check(["a", "b"])
    assert bob.delete_key("a") and not bob.delete_key("a")
    for client in (ann, bob):
        client.close()
    assert ann.get("text") == b"words"  # connects again
    ann.close()


def test_get_waits_for_a_value(server: StoreServer) -> None:
    ann, bob = (server.client() for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        value = pool.submit(ann.get, "late")
        bob.set("late", b"1")
        assert value.result(10) == b"1"
    ann.close()
    bob.close()


def test_formations_have_stores_of_their_own(server: StoreServer) -> None:
    one, other = server.client("1-a"), server.client("2-a")
    one.set("a", b"1")
    assert not other.check(["a"])
    server.stores.forget(1)
    other.set("a", b"2")
    with pytest.raises(RuntimeError, match="store at"):
        one.get("a")
    assert not one.check(["a"])  # connects again, to an empty store
    assert other.get("a") == b"2"
    one.close()
    other.close()


def test_a_key_that_does_not_come_is_named(server: StoreServer) -> None:
    client = server.client(deadline=0.05)
    with pytest.raises(RuntimeError, match=r"no nothing within 0\.05 s"):
        client.get("nothing")
    with pytest.raises(RuntimeError, match=r"no b, c within 0\.01 s"):
        client.set("a", b"")
        client.wait(["a", "b", "c"], timedelta(seconds=0.01))
    client.close()


def test_a_store_that_is_gone_is_an_error_at_once() -> None:
    server = StoreServer()
    client = server.client()
    client.set("a", b"1")
    server.stores.forget(1)
    server.close()
    with pytest.raises(RuntimeError, match=f"store at {server.address}"):
        client.get("a")
    with pytest.raises(BrokenGroupError, match="could not be built"):
        GlooGroup(server.client("2-late"), 0, 2, HOST)


def test_strangers_get_nothing(server: StoreServer) -> None:
    stranger = StoreClient(server.address, "guess", "1-a", 10.0)
    with pytest.raises(RuntimeError, match="store at"):
        stranger.set("a", b"1")


def test_what_is_no_request_ends_that_connection_alone(server: StoreServer) -> None:
    client = server.client()
    client.set("a", b"1")
    rubbish: Any
    for rubbish in ([], {"op": "burn"}, {"op": "get", "keys": 3, "seconds": "x"}):
        with connect(server.address, {"kind": "store", "name": "1-a"}, TOKEN, 10.0) as stranger:
            send_json(stranger, rubbish)
            assert stranger.recv(1) == b""
    assert client.get("a") == b"1"
    client.close()


def test_a_member_that_does_not_come_is_noticed_within_the_deadline(server: StoreServer) -> None:
    with pytest.raises(BrokenGroupError, match="group 1-alone could not be built"):
        GlooGroup(server.client("1-alone", 0.2), 0, 2, HOST)


def test_a_store_ends_with_its_formation(server: StoreServer) -> None:
    before = threading.active_count()
    client = server.client()
    client.set("a", b"1")
    serving = [thread for thread in threading.enumerate() if thread.name == "muster-answer"]
    server.stores.forget(1)
    for thread in serving:
        thread.join(10)
    assert threading.active_count() <= before
    client.close()
