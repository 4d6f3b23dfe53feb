"""A client sends nothing to whom it does not know."""

import hashlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from muster.api.door.limits import Limits
from muster.api.door.listener import Tls
from muster.client import Client, ClientError
from muster.client.connecting import trust
from muster.wire.agents.token_proof import digest, proof
from tests.unit.api.harness import Api, running_api

SECRET = "3q2-7w_x-the-administrators-own-token"


class Imposter:
    """Listens where a daemon did, answers what it likes, and notes all that it is sent."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.heard = b""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def _run(self) -> None:
        while True:
            line, _ = self._listening.accept()
            with line:
                line.settimeout(10)
                try:
                    while got := line.recv(65536):
                        self.heard += got
                        if b"quit" in got:
                            return
                        line.sendall(self._answer)
                except OSError:
                    continue

    def close(self) -> None:
        with socket.create_connection(self._listening.getsockname()) as line:
            line.sendall(b"quit")
            self._thread.join(30)
        self._listening.close()


@contextmanager
def imposter(body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n") -> Iterator[Imposter]:
    answer = head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    found = Imposter(answer)
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize(
    "body", [b'{"proof": "%s"}' % (b"0" * 64), b"{}", b"[1]", b"{", b'{"jobs": [], "next": null}']
)
def test_whoever_listens_in_the_daemons_place_gets_no_token(body: bytes) -> None:
    with imposter(body) as other, Client(other.url, SECRET, patience=0.0) as client:
        with pytest.raises(ClientError, match="was not sent") as caught:
            list(client.jobs())
        assert caught.value.status == 401
        with pytest.raises(ClientError, match="was not sent"):
            list(client.events(follow=True))
    assert b"/v1/proof" in other.heard
    assert SECRET.encode() not in other.heard and b"Authorization" not in other.heard
    assert digest(SECRET).encode() not in other.heard


@pytest.mark.parametrize("head", [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 404 Not Found\r\n"])
def test_other_programs_get_no_token_either(head: bytes) -> None:
    with imposter(b"", head) as other, pytest.raises(ClientError):
        list(Client(other.url, SECRET, patience=0.0).jobs())
    assert SECRET.encode() not in other.heard


def test_a_proof_made_for_another_port_is_none() -> None:
    """Or a stranger could ask the daemon, wherever it listens now, and hand its answer on."""
    known = digest(SECRET)
    assert proof(known, "ab" * 16, 7077) != proof(known, "ab" * 16, 7078)
    assert proof(known, "ab" * 16, 7077) != proof(known, "cd" * 16, 7077)


def test_each_connection_is_proven_before_its_first_request(api: Api) -> None:
    with api.listening() as url:
        with Client(url, "root") as client:
            assert list(client.jobs()) == []
            assert client.policy().name == "muster"
        with Client(url, "wrong") as client, pytest.raises(ClientError) as caught:
            client.policy()
        assert caught.value.status == 401


def test_an_answer_to_an_unknown_token_looks_like_any_other(api: Api) -> None:
    with api.listening() as url:
        answers = [
            httpx.get(f"{url}/v1/proof?token={start}&nonce={'ab' * 16}", trust_env=False)
            for start in (digest("root")[:16], "0" * 16)
        ]
    assert {answer.status_code for answer in answers} == {200}
    assert {len(answer.json()["proof"]) for answer in answers} == {64}
    assert {answer.headers["Cache-Control"] for answer in answers} == {"no-store"}


def test_a_busy_daemon_is_asked_again() -> None:
    with running_api(Limits(open_rate=5.0, open_burst=1)) as api, api.listening() as url:
        for _ in range(2):
            with Client(url, "root") as client:
                assert client.policy().name == "muster"


def test_a_token_is_not_sent_in_clear_to_another_machine() -> None:
    with pytest.raises(ClientError, match=r"https://.*MUSTER_INSECURE=1"):
        Client("http://198.51.100.7:7077", SECRET).status()


def test_a_token_is_sent_in_clear_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_INSECURE", "1")
    with imposter(b"{}") as other:
        with Client(other.url, SECRET, patience=0.0) as client:
            client.connection.ask("GET", "/v1/jobs")
        assert SECRET.encode() in other.heard


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    """A certificate for another name than the daemon's."""
    found = Tls(tmp_path / "cert.pem", tmp_path / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=elsewhere"]
    command += ["-keyout", str(found.key), "-out", str(found.certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return found


def test_a_pinned_certificate_is_trusted_and_no_other(api: Api, tls: Tls) -> None:
    der = ssl.PEM_cert_to_DER_cert(tls.certificate.read_text(encoding="ascii"))
    known = hashlib.sha256(der).hexdigest()
    with api.listening(tls) as url:
        with Client(url, "root", ca=f"sha256:{known}") as client:
            assert client.policy().name == "muster"
        other = f"sha256:{'0' * 64}"
        with pytest.raises(ClientError, match=f"its certificate is sha256:{known}, not {other}"):
            Client(url, "root", ca=other, patience=0.0).policy()
        with (
            Client(url, "root", patience=0.0) as client,
            pytest.raises(ClientError, match=r"not trusted: self-signed certificate \(set MUSTER_CA"),
        ):
            client.policy()


def test_a_port_without_tls_is_told_from_one_where_nobody_listens(api: Api) -> None:
    with api.listening() as url:
        safe = url.replace("http://", "https://")
        with pytest.raises(ClientError, match=rf"{safe} speaks no TLS \(check the port"):
            Client(safe, "root", patience=0.0).policy()


@pytest.mark.parametrize("ca", ["/nowhere/ca.pem", "sha256:12", "rubbish"])
def test_a_certificate_that_cannot_be_read_is_one_line(tmp_path: Path, ca: str) -> None:
    if ca == "rubbish":
        ca = str(tmp_path / "ca.pem")
        Path(ca).write_text("not a certificate", encoding="ascii")
    with pytest.raises(ClientError) as caught:
        Client("https://127.0.0.1:1", "t", ca=ca).status()
    assert ca in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_unix_socket_needs_no_token_and_tells_who_calls(api: Api, tmp_path: Path) -> None:
    with api.on_unix_socket(tmp_path / "m.sock") as url, Client(url) as client:
        assert list(client.jobs()) == []
        assert client.submit({"command": "true", "name": "a"}).record().user == "nobody"
        with Client(url, "ada") as ada:
            assert ada.submit({"command": "true", "name": "b"}).record().user == "ada"
        with Client(url, "guessed") as guess, pytest.raises(ClientError) as caught:
            guess.policy()
        assert caught.value.status == 401


def test_a_socket_of_another_user_is_not_talked_to(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api.on_unix_socket(tmp_path / "m.sock") as url:
        # As if the listening process were another's: only root could start a real one.
        monkeypatch.setattr(trust, "ROOT", -1)
        monkeypatch.setattr("muster.client.connecting.trust.os.geteuid", lambda: 12345)
        with pytest.raises(ClientError, match="neither you nor root"):
            Client(url, patience=0.0).submit({"command": "true"})
    assert not api.service.entries


def test_nobody_at_the_socket_is_said_like_nobody_at_the_port(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"no daemon answers at unix://.*muster up"):
        Client(f"unix://{tmp_path}/none.sock", patience=0.0).status()
