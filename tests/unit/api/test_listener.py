"""The API on a real socket: sizes, certificates, ports."""

import asyncio
import resource
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest

from muster.api.door.limits import Limits
from muster.api.door.listener import Tls, bound
from tests.unit.api.harness import Api, connected, running_api

HUNDRED_MB = 100_000_000


def head(url: str, *fields: str) -> bytes:
    """The head of a submission."""
    lines = ["POST /v1/jobs HTTP/1.1", f"Host: {httpx.URL(url).host}", "Authorization: Bearer root"]
    return "\r\n".join([*lines, "Content-Type: application/json", *fields, "", ""]).encode()


def pushed(sender: socket.socket, piece: bytes, most: int) -> int:
    """Bytes that were taken before the other side hung up."""
    sent = 0
    try:
        while sent < most:
            sender.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_100_mb_is_cut_off_and_not_kept(api: Api, chunked: bool) -> None:
    megabyte = b" " * 1_000_000
    piece = b"%x\r\n%s\r\n" % (len(megabyte), megabyte) if chunked else megabyte
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {HUNDRED_MB}"
    with api.listening() as url, connected(url) as sender:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        sender.sendall(head(url, length))
        sent = pushed(sender, piece, HUNDRED_MB)
        answer = sender.recv(65536)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert answer.startswith(b"HTTP/1.1 413")
        assert sent < HUNDRED_MB / 2
        assert grown < 20_000  # kB
        assert httpx.get(f"{url}/healthz", trust_env=False).text == "ok\n"


def test_an_answer_does_not_wait_for_the_clients_acknowledgement() -> None:
    """Head and body are two writes: with Nagle's algorithm each answer would take 40 ms longer."""

    async def accepted() -> None:
        loop = asyncio.get_running_loop()
        connected: asyncio.Future[socket.socket] = loop.create_future()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                connected.set_result(transport.get_extra_info("socket"))

        listening = bound()
        async with await loop.create_server(Protocol, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            found = await connected
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.close()

    asyncio.run(accepted())


def test_tls_by_file(api: Api, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    with api.listening(Tls(certificate, key)) as url:
        assert url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=str(certificate))
        with httpx.Client(verify=trusted, trust_env=False) as http:
            assert http.get(f"{url}/healthz").text == "ok\n"
        with pytest.raises(httpx.ConnectError), httpx.Client(trust_env=False) as http:
            http.get(f"{url}/healthz")


def test_a_certificate_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Tls(tmp_path / "none.pem").context()


def test_it_listens_to_this_machine_alone_and_a_taken_port_is_said_at_once() -> None:
    with bound() as first:
        host, port = first.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(OSError, match="in use"):
            bound(port=port)


def test_a_request_under_way_is_answered_before_it_ends() -> None:
    with running_api(Limits()) as api:
        with api.listening() as url, connected(url) as sender:
            body = b'{"command": "python train.py"}'
            sender.sendall(head(url, f"Content-Length: {len(body)}") + body)
            assert sender.recv(65536).startswith(b"HTTP/1.1 201")
        assert len(api.service.entries) == 1
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/healthz", trust_env=False)
