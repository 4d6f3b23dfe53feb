"""What the kernel says of connections: real sockets, real waiting."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from muster.runtime.comm import hops
from muster.runtime.comm.hops import HostConnections, _Count, _reports, hops_of
from muster.wire.tasks.messages import Member

pytest.importorskip("torch")

BULK = bytes(24_000_000)
"""More than both ends of a connection hold."""
NAP = 1.0
"""s for which a peer is not ready."""


@contextmanager
def peer(nap: float) -> Iterator[tuple[socket.socket, threading.Thread]]:
    """A connection to somebody who reads everything, after a nap."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def read() -> None:
            connection, _ = server.accept()
            with connection:
                threading.Event().wait(nap)
                while connection.recv(1 << 20):
                    pass

        reader = threading.Thread(target=read)
        reader.start()
        with socket.create_connection(server.getsockname()) as connection:
            yield connection, reader
        reader.join()


@pytest.mark.parametrize("nap", [0.0, NAP])
def test_the_bytes_and_their_time_are_counted_without_the_wait_for_a_peer(
    nap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hops, "EVERY", 0.0)
    monkeypatch.setattr(hops, "LEAST", 0.0)
    monkeypatch.setattr(hops, "ROUND_TRIPS", 0)
    with peer(nap) as (connection, reader):
        seen = HostConnections({"127.0.0.1": "worker-1"})
        connection.sendall(BULK)
        connection.shutdown(socket.SHUT_WR)
        reader.join()
        reports = seen.step()
    (report,) = [each for each in reports if each.bytes]
    assert report.peer == "worker-1"
    assert report.bytes == pytest.approx(len(BULK), abs=1)  # the end of a stream counts as one
    assert report.seconds < NAP / 2, "a peer that is not ready is no slow link"
    assert 0 < report.latency < NAP


def test_a_host_without_connections_is_not_told_of() -> None:
    with peer(0.0):
        assert HostConnections({"10.9.9.9": "worker-1"}).step() == []


def test_members_of_this_host_are_no_hops() -> None:
    members = [Member(f"worker-{i}", "worker", f"127.0.0.1:{i + 1}") for i in range(3)]
    with peer(0.0):
        assert hops_of(members, 0).step() == []


def test_bytes_and_seconds_are_those_of_a_step() -> None:
    (report,) = _reports({"a": _Count(10_000_000, 0.2, 1e-4)}, steps=4)
    assert (report.bytes, report.seconds) == (2_500_000, 0.05)


def test_small_messages_tell_the_latency_alone() -> None:
    (report,) = _reports({"a": _Count(30_000, 0.05, 2e-4)}, steps=3)
    assert (report.bytes, report.seconds) == (0, 0.0)
    assert report.latency == pytest.approx(1e-4)
