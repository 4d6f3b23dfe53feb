"""The store at which members find each other."""

import gc
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.store import StoreClient, StoreServer
from muster.runtime.errors import BrokenGroupError

HOST = "127.0.0.1"


def test_values_are_bytes_and_counts_are_sums() -> None:
    server = StoreServer(HOST)
    ann, bob = (StoreClient((HOST, server.port)) for _ in range(2))
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


def test_get_waits_for_a_value() -> None:
    server = StoreServer(HOST)
    ann, bob = (StoreClient((HOST, server.port)) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        value = pool.submit(ann.get, "late")
        bob.set("late", b"1")
        assert value.result(10) == b"1"
    ann.close()
    bob.close()


def test_a_key_that_does_not_come_is_named() -> None:
    server = StoreServer(HOST)
    client = StoreClient((HOST, server.port), deadline=0.05)
    with pytest.raises(RuntimeError, match=r"no nothing within 0\.05 s"):
        client.get("nothing")
    with pytest.raises(RuntimeError, match=r"no b, c within 0\.01 s"):
        client.set("a", b"")
        client.wait(["a", "b", "c"], timedelta(seconds=0.01))
    client.close()


def test_a_store_that_is_gone_is_an_error_at_once() -> None:
    server = StoreServer(HOST)
    address = (HOST, server.port)
    client = StoreClient(address)
    client.set("a", b"1")
    server.close()
    server.close()
    with pytest.raises(RuntimeError, match=f"store at {HOST}:{address[1]}"):
        client.get("a")
    with pytest.raises(BrokenGroupError, match="could not be built"):
        GlooGroup(address, "late", 0, 2, HOST, 30.0)


def test_what_is_no_request_ends_that_connection_alone() -> None:
    server = StoreServer(HOST)
    for rubbish in (
        b"GET / HTTP/1.1\n",
        b"[]\n",
        b'{"op": "burn", "keys": [], "seconds": 1}\n',
        b"\xff\n",
    ):
        with socket.create_connection((HOST, server.port), 10) as stranger:
            stranger.sendall(rubbish)
            assert stranger.recv(1) == b""
    client = StoreClient((HOST, server.port))
    client.set("a", b"1")
    assert client.get("a") == b"1"
    client.close()


def test_a_member_that_does_not_come_is_noticed_within_the_deadline() -> None:
    store = StoreServer(HOST)
    with pytest.raises(BrokenGroupError, match="group alone could not be built"):
        GlooGroup((HOST, store.port), "alone", 0, 2, HOST, 0.2)


def test_a_store_ends_with_its_object() -> None:
    before = threading.active_count()
    server = StoreServer(HOST)
    client = StoreClient((HOST, server.port))
    client.set("a", b"1")
    threads = [thread for thread in threading.enumerate() if thread.name == "store"]
    del server
    gc.collect()
    for thread in threads:
        thread.join(10)
    assert threading.active_count() <= before
    client.close()
