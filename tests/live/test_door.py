"""Who is let in: strangers in number, other users, other machines, who takes the daemon's place."""

import contextlib
import getpass
import json
import os
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster.client import Client, ClientError
from tests.live.conftest import Make
from tests.live.daemons import MUSTER, Daemon, environment

FLAT = 50 * 2**20
"""Bytes by which a daemon may grow over what strangers send."""
FEW_FILES = ("sh", "-c", 'ulimit -n 1024 && exec "$@"', "sh")
NOBODY = 65534
LAB = Path(__file__).parents[2] / "examples/clusters/lab.yaml"


def connected(daemon: Daemon) -> socket.socket:
    parts = urlsplit(daemon.url)
    assert parts.hostname and parts.port
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for the test's own ends of a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4096:
        pytest.skip("this process may not open enough connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_files")
def test_strangers_neither_stop_the_daemon_nor_fill_its_memory(make: Make) -> None:
    daemon: Daemon = make(before=FEW_FILES)
    daemon.start()
    daemon.client.status()
    before, piece = daemon.memory(), b"a" * 2**20
    for start in (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", b"GET /"):
        with connected(daemon) as line, contextlib.suppress(ConnectionError):
            line.sendall(start)
            for _ in range(200):
                line.sendall(piece)
            pytest.fail("200 MB were taken")
    with contextlib.ExitStack() as lines:
        for _ in range(1100):
            line = lines.enter_context(connected(daemon))
            with contextlib.suppress(ConnectionError):  # it was ended, to make room
                line.sendall(b"GET /v1/jobs HTTP/1.1\r\nHost: local")
        assert daemon.sh("true", name="meanwhile").wait(60).status == "succeeded"
        with Client(daemon.url, daemon.token) as client:
            assert [job.name for job in client.jobs()] == ["meanwhile"]
        assert daemon.memory() - before < FLAT


def test_who_takes_a_stopped_daemons_port_is_sent_no_token(make: Make) -> None:
    daemon: Daemon = make()
    daemon.start()
    url, token = daemon.url, daemon.token
    assert daemon.stop() == 0
    heard = []
    with socket.create_server(("127.0.0.1", urlsplit(url).port or 0)) as other:

        def listen() -> None:
            line, _ = other.accept()
            with line:
                heard.append(line.recv(65536))
                line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
                line.settimeout(10)
                heard.append(line.recv(65536))

        thread = threading.Thread(target=listen)
        thread.start()
        said = subprocess.run(
            [*MUSTER, "pool", "list"],
            env={**environment(daemon.home), "MUSTER_URL": url},
            capture_output=True,
            text=True,
            check=False,
        )
        thread.join(60)
    assert said.returncode == 105
    assert "does not know this token, so it was not sent" in said.stderr
    assert token.encode() not in b"".join(heard)
    # By default the command goes to the socket, where nobody is.
    assert "no daemon answers at unix://" in daemon.muster("ps").stderr


def test_other_machines_come_with_tls_a_pin_and_a_token(make: Make) -> None:
    daemon: Daemon = make("--host", "0.0.0.0", "--allow-host", "muster.lab")
    daemon.start()
    said = (daemon.folder / "daemon.out").read_text(encoding="utf-8")
    line = next(line for line in said.splitlines() if "others" in line)
    given = dict(word.split("=", 1) for word in line.split()[1:])
    assert given["MUSTER_URL"].startswith("https://")
    key = daemon.data / "tls" / "key.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    secret = daemon.client.create_token("ada", "ada").secret
    assert secret
    url = f"https://127.0.0.1:{urlsplit(daemon.url).port}"
    with Client(url, secret, ca=given["MUSTER_CA"]) as ada:
        assert list(ada.jobs()) == []
    with Client(url, secret, ca=str(daemon.data / "tls" / "cert.pem")) as ada:
        assert list(ada.jobs()) == []
    for ca in (None, "sha256:" + "0" * 64):
        with Client(url, secret, ca=ca, patience=0.0) as ada, pytest.raises(ClientError):
            list(ada.jobs())


def asked(path: Path, *words: str, user: int | None = None) -> tuple[int, bytes]:
    """Exit code and answer of curl on a Unix socket, as another user."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    command = [curl, "-sS", "--unix-socket", str(path), *words]
    done = subprocess.run(command, user=user, capture_output=True, timeout=60, check=False, cwd="/")
    return done.returncode, done.stdout


@pytest.fixture
def shared() -> Iterator[Path]:
    """A socket's path in a folder that all users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="muster-"))
    folder.chmod(0o755)
    yield folder / "muster.sock"
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_users_of_a_machine_are_told_apart_by_the_kernel(shared: Path, make: Make) -> None:
    daemon: Daemon = make("--socket", str(shared))
    daemon.start()
    base = "http://localhost/v1"
    job = ("--json", '{"command": "true", "name": "hers"}', f"{base}/jobs")
    assert json.loads(asked(shared, *job, user=NOBODY)[1])["user"] == "nobody"
    _, answer = asked(shared, "-X", "POST", f"{base}/nodes/n0/drain", user=NOBODY)
    assert json.loads(answer)["status"] == 403
    assert daemon.sh("true", name="mine").wait(60).user == getpass.getuser()
    assert json.loads(asked(shared, f"{base}/jobs/mine", user=NOBODY)[1])["status"] == 404


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_daemons_own_socket_is_closed_to_other_users(daemon: Daemon) -> None:
    path = Path(daemon.client.connection.url.removeprefix("unix://"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert asked(path, "http://localhost/healthz") == (0, b"ok\n")
    code, answer = asked(path, "http://localhost/healthz", user=NOBODY)
    assert (code != 0, answer) == (True, b"")


def test_a_folder_too_deep_for_a_socket_has_one_elsewhere(make: Make, tmp_path: Path) -> None:
    daemon: Daemon = make(data=tmp_path / ("d" * 60) / ("e" * 60))
    daemon.start()
    path = Path(daemon.client.connection.url.removeprefix("unix://"))
    assert daemon.data not in path.parents
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert daemon.client.status().role == "active"
    assert daemon.stop() == 0
    assert not path.exists()


def test_devices_that_are_not_there_are_told(make: Make) -> None:
    daemon: Daemon = make("--simulate-devices", devices=28, cluster=LAB)
    daemon.start()
    said = (daemon.folder / "daemon.out").read_text(encoding="utf-8")
    assert "lab.yaml names 24 P100, 4 V100, but this machine has" in said
    assert "names 24 P100" in daemon.client.status().warning


def test_a_daemon_without_tokens_says_what_that_means(make: Make) -> None:
    daemon: Daemon = make("--no-auth")
    daemon.start()
    said = (daemon.folder / "daemon.out").read_text(encoding="utf-8")
    assert "warning  without tokens every user of this machine runs code as" in said
