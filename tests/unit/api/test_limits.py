"""What strangers may cost: connections, time and memory, before anybody has shown a token."""

import asyncio
import contextlib
import errno
import json
import os
import resource
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from structlog.testing import capture_logs

from muster.api.door import failures
from muster.api.door.connections import Connections, accept
from muster.api.door.failures import FORGOTTEN, FREE, LONGEST, FailedLogins
from muster.api.door.limits import Limits
from muster.api.door.peer import Peer
from muster.app.door import limits_of_process
from tests.unit.api.harness import connected, running_api
from tests.unit.api.test_gate import Now
from tests.unit.api.test_listener import pushed

MEGABYTE = b"a" * 1_000_000
HALF = b"GET /healthz HT"


def is_up(url: str) -> bool:
    return httpx.get(f"{url}/healthz", trust_env=False, timeout=30).text == "ok\n"


def hung_up(line: socket.socket) -> bool:
    """Whether the daemon ends this connection; waits for it."""
    try:
        while line.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


@contextlib.contextmanager
def half_sent(url: str, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        lines = []
        for _ in range(count):
            lines.append(stack.enter_context(connected(url)))
            with contextlib.suppress(ConnectionError):  # ended meanwhile, to make room
                lines[-1].sendall(HALF)
        yield lines


def test_half_sent_requests_keep_no_proper_client_out() -> None:
    with running_api(Limits(connections=100, per_peer=50)) as api, api.listening() as url:
        with half_sent(url, 200) as lines:
            assert is_up(url)
            assert hung_up(lines[0])
        assert is_up(url)


def test_half_sent_requests_are_ended_after_a_time() -> None:
    with running_api(Limits(head_time=0.2, body_time=0.2)) as api, api.listening() as url:
        with connected(url) as silent, connected(url) as half, connected(url) as blank:
            half.sendall(HALF)
            blank.sendall(b"\r\n")
            assert hung_up(silent) and hung_up(half) and hung_up(blank)
        with connected(url) as line:
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert line.recv(4096).startswith(b"HTTP/1.1 200")
            line.sendall(HALF)
            assert hung_up(line), "the second request on a connection, too"
        with connected(url) as line:
            head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer root\r\n"
            line.sendall(head + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
            assert hung_up(line), "a body that does not come"


HEADS = {
    "a header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
    "many headers": b"GET / HTTP/1.1\r\nHost: localhost\r\n",
    "a URL": b"GET /",
}


@pytest.mark.parametrize("what", HEADS)
def test_a_head_of_any_size_is_cut_off_and_not_kept(what: str) -> None:
    piece = b"X: a\r\n" * 160_000 if what == "many headers" else MEGABYTE
    with running_api() as api, api.listening() as url, connected(url) as line:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        line.sendall(HEADS[what])
        sent = pushed(line, piece, 200_000_000)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert sent < 20_000_000
        assert grown < 20_000  # kB
        assert is_up(url)


def test_a_head_that_comes_at_once_but_is_too_large_is_told_so() -> None:
    with running_api() as api, api.listening() as url:
        for path, header, status in (("a" * 20_000, "b", b"414"), ("", "b" * 70_000, b"431")):
            with connected(url) as line:
                line.sendall(f"GET /{path} HTTP/1.1\r\nHost: localhost\r\nX: {header}\r\n\r\n".encode())
                assert line.recv(4096).split()[1] == status
        with connected(url) as line:  # as large as allowed
            line.sendall(f"GET /{'a' * 16_000} HTTP/1.1\r\nHost: localhost\r\n".encode())
            line.sendall(f"X: {'b' * 60_000}\r\n\r\n".encode())
            assert line.recv(4096).split()[1] == b"401"


def test_a_body_that_comes_with_its_head_in_one_piece_is_no_head() -> None:
    """A job with 100 kB of environment, sent at once."""
    body = json.dumps({"command": "true", "env": {"X": "a" * 100_000}}).encode()
    head = f"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    head += "authorization: Bearer wrong\r\ncontent-type: application/json\r\n\r\n"
    with running_api() as api, api.listening() as url:
        for _ in range(3):
            with connected(url) as line:
                line.sendall(head.encode() + body)
                assert line.recv(4096).split()[1] == b"401"


def test_strangers_may_ask_only_so_often() -> None:
    clock = Now()
    with running_api(Limits(open_rate=1.0, open_burst=2), clock=clock) as api, api.listening() as url:
        with httpx.Client(base_url=url, trust_env=False) as stranger:
            codes = [stranger.get("/v1/status").status_code for _ in range(3)]
        assert codes == [200, 200, 429]
        with httpx.Client(
            base_url=url, trust_env=False, headers={"Authorization": "Bearer root"}
        ) as proper:
            assert proper.get("/v1/jobs").status_code == 200


def test_failed_logins_are_held_up_longer_and_longer_and_logged() -> None:
    clock = Now()
    logins = FailedLogins(clock)
    with capture_logs() as logged:
        waits = [logins.note("10.0.0.9") for _ in range(FREE + 20)]
    assert waits[:FREE] == [0.0] * FREE
    assert waits[FREE:] == sorted(waits[FREE:])
    assert waits[FREE] > 0.0 and waits[-1] == LONGEST
    assert [each["failures"] for each in logged] == [1, 2, 4, 8, 16]
    assert {each["peer"] for each in logged} == {"10.0.0.9"}
    assert logins.note("10.0.0.8") == 0.0
    clock.now += FORGOTTEN + 1.0
    assert logins.note("10.0.0.9") == 0.0


def test_a_proper_token_is_answered_while_wrong_ones_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    held, release = threading.Event(), asyncio.Event()

    async def wait(_: float) -> None:
        held.set()
        await release.wait()

    monkeypatch.setattr(failures, "sleep", wait)
    with running_api() as api, api.listening() as url:

        def ask(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.get(f"{url}/v1/jobs", headers=headers, trust_env=False).status_code

        assert [ask("wrong") for _ in range(FREE)] == [401] * FREE
        codes: list[int] = []
        guess = threading.Thread(target=lambda: codes.append(ask("wrong")))
        guess.start()
        assert held.wait(30)
        assert ask("root") == 200
        assert codes == []
        api.do(release.set)
        guess.join(30)
        assert codes == [401]


def opened(connections: Connections, count: int, key: str = "a", **fields: object) -> list[Peer]:
    found = []
    for _ in range(count):
        peer = Peer(key, **fields)  # type: ignore[arg-type]
        peer.hang_up = lambda peer=peer: connections.leave(peer)  # type: ignore[misc]
        if connections.enter(peer):
            found.append(peer)
    return found


def test_connections_that_were_let_in_are_never_ended_for_others() -> None:
    connections = Connections(total=6, per_peer=3)
    proper = opened(connections, 3, "a", trusted=True)
    assert len(proper) == 3
    assert opened(connections, 1, "a") == [], "full, and nobody to make room"
    strangers = opened(connections, 3, "b") + opened(connections, 3, "c")
    assert len(strangers) == 6, "strangers make room for strangers"
    assert sum(map(len, connections._peers.values())) == 6
    assert all(peer in connections._peers["a"] for peer in proper)
    assert len(opened(connections, 3, "uid 0", uid=0)) == 3, "the Unix socket has its own share"


def test_without_descriptors_connections_are_dropped_and_later_ones_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel reports a connection that cannot be accepted again and again."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        taken: asyncio.Queue[socket.socket] = asyncio.Queue()
        real, full = loop.sock_accept, [True]

        async def sock_accept(listening: socket.socket) -> tuple[socket.socket, object]:
            await until_readable(listening)
            if full:
                full.pop()
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return await real(listening)

        monkeypatch.setattr(loop, "sock_accept", sock_accept)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            accepting = asyncio.create_task(accept(listening, taken.put_nowait))
            with socket.create_connection(listening.getsockname()) as first:
                await asyncio.to_thread(hung_up, first)
            with socket.create_connection(listening.getsockname()):
                (await asyncio.wait_for(taken.get(), 30)).close()
            accepting.cancel()
            await asyncio.gather(accepting, return_exceptions=True)

    with capture_logs() as logged:
        asyncio.run(run())
    assert "out of descriptors" in logged[0]["event"]


async def until_readable(listening: socket.socket) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(listening, ready.set)
    await ready.wait()
    loop.remove_reader(listening)


def test_a_daemon_takes_as_many_connections_as_its_files_allow() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = limits_of_process()
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert now >= soft
    assert 2 * limits.connections <= now / 2 + 1
    assert 0 < limits.per_peer <= limits.connections
