"""What should never have come: a daemon refuses it in words, and goes on as if it had not."""

import http.client
import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster.client import Client, ClientError
from tests.live.conftest import Make
from tests.live.daemons import Daemon, until

EVERYTHING_WRONG = """
name: a/b
shell: perhaps
command: []
folder: [a]
env: [A, B]
user: ""
pool: "no such pool!"
priority: high
preemptible: 3
devices: -2
any_of: cpu
same_generation: 5
gang: 0
cores: many
memory: heavy
locality: galaxy
model: [a]
batch: 0
step: fast
duration: yesterday
work: -1
application: "?"
elastic: rubber
pause: "-1s"
sync: gossip
owners: nobody
grace: soon
checkpoint_signal: SIGKILL
checkpoint_grace: "1"
failures: -1
losses: none
colour: blue
"""
LARGE = 100 * 2**20
FLAT = 50 * 2**20
"""Bytes by which a daemon may grow over requests that it refuses."""
FULL = "the journal cannot be written"


def connection(daemon: Daemon) -> http.client.HTTPConnection:
    """To the daemon, with nothing between that would mend what is sent."""
    parts = urlsplit(daemon.url)
    assert parts.hostname
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)


def token(daemon: Daemon) -> dict[str, str]:
    """The owner's header."""
    return {"Authorization": f"Bearer {daemon.token}"}


def get(daemon: Daemon, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """Status and body of an answer to the path exactly as it is given."""
    with closing(connection(daemon)) as line:
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        return answer.status, answer.read()


def test_every_wrong_field_is_told_in_a_line_of_its_own(daemon: Daemon) -> None:
    path = daemon.work("wrong") / "wrong.yaml"
    path.write_text(EVERYTHING_WRONG, encoding="utf-8")
    done = daemon.muster("run", "-y", path)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    fields = [line.split(":")[0] for line in EVERYTHING_WRONG.strip().splitlines()]
    assert [line.split(": ")[2] for line in lines] == fields, done.stderr
    assert done.stdout == ""


def test_the_api_names_every_wrong_field_too(daemon: Daemon) -> None:
    wrong = {"command": "true", "devices": -1, "grace": "soon", "colour": "blue"}
    with pytest.raises(ClientError) as refused:
        daemon.client.submit(wrong)
    assert refused.value.status == 422
    assert {fault.field for fault in refused.value.errors} == {"devices", "grace", "colour"}


def test_what_could_never_run_is_refused_with_what_could(daemon: Daemon) -> None:
    with pytest.raises(ClientError, match=r"can never run .*nearest that could: devices: 4") as refused:
        daemon.sh("true", name="giant", devices=daemon.devices + 1)
    assert refused.value.status == 422


def chunk(piece: bytes) -> bytes:
    """A piece of a body whose length nobody has told."""
    return b"%x\r\n%s\r\n" % (len(piece), piece)


def bodies() -> dict[str, tuple[dict[str, str], Sequence[bytes]]]:
    piece = b" " * 2**20
    return {
        "it says how long it is": ({"Content-Length": str(LARGE)}, [piece] * 100),
        "it does not": ({"Transfer-Encoding": "chunked"}, [piece] * 100),
    }


@pytest.mark.parametrize("how", bodies())
def test_a_hundred_megabytes_are_refused_without_being_kept(daemon: Daemon, how: str) -> None:
    headers, pieces = bodies()[how]
    daemon.client.status()
    before, most = daemon.memory(), 0
    with closing(connection(daemon)) as line:
        line.putrequest("POST", "/v1/jobs")
        for name, text in {**token(daemon), "Content-Type": "application/json", **headers}.items():
            line.putheader(name, text)
        line.endheaders()
        with suppress(ConnectionError):  # it hangs up, rather than to read it all
            for piece in pieces:
                line.send(piece if "Content-Length" in headers else chunk(piece))
                most = max(most, daemon.memory())
        with suppress(ConnectionError):  # perhaps so early that the answer is lost on the way
            assert line.getresponse().status == 413
    assert max(most, daemon.memory()) - before < FLAT
    assert daemon.client.status().trouble == ""


def test_another_users_jobs_are_none_of_yours(daemon: Daemon) -> None:
    daemon.sh("echo mine; exec sleep 600", name="mine")
    daemon.await_status("mine", "running")
    with daemon.client_of("eve") as eve:
        assert list(eve.jobs()) == []
        for ask in (eve.job, eve.stop, lambda name: eve.resize(name, 2), lambda n: list(eve.logs(n))):
            with pytest.raises(ClientError) as refused:
                ask("mine")
            assert refused.value.status == 404
        for forbidden in (lambda: eve.drain("n0"), lambda: eve.create_token("x", "root", "admin")):
            with pytest.raises(ClientError) as refused:
                forbidden()
            assert refused.value.status == 403
        with pytest.raises(ClientError, match="only administrators submit for others"):
            eve.submit({"command": ["true"], "name": "hers", "user": "root"})
    daemon.client.revoke_token("eve")
    with (
        Client(daemon.client.connection.url, "guessed") as stranger,
        pytest.raises(ClientError) as refused,
    ):
        list(stranger.jobs())
    assert refused.value.status == 401
    assert daemon.record("mine").status == "running"


TRAVERSALS = (
    "1/..%2f..%2f..%2fmuster.db",
    "..%2f..%2f/worker-0",
    "../../../muster.db",
    "1/worker-0%00",
    "1/%2e%2e/%2e%2e/%2e%2e/muster.db",
    "1//etc/passwd",
    "-1/worker-0",
    "1/worker-0/../../../../../etc/passwd",
)


def test_names_of_logs_lead_nowhere_else(daemon: Daemon) -> None:
    daemon.sh("echo own words", name="writer").wait(60)
    number, headers = daemon.record("writer").number, token(daemon)
    assert get(daemon, f"/v1/jobs/{number}/logs/1/worker-0", headers) == (200, b"own words\n")
    for path in TRAVERSALS:
        status, body = get(daemon, f"/v1/jobs/{number}/logs/{path}", headers)
        assert status in (404, 422), path
        assert b"SQLite" not in body and b"root:" not in body
        assert json.loads(body)["status"] == status


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Sequence[str]]:
    """A command before the daemon's that gives it a disk of its own at `data`, of 8 MB; skips where
    that is not allowed."""
    data = tmp_path / "a" / "data"
    data.mkdir(parents=True)
    line = 'mount -t tmpfs -o size=8m muster "$0" && exec "$@"'
    before = ("unshare", "--mount", "sh", "-c", line, str(data))
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield before


def test_on_a_full_disk_nothing_is_done_until_there_is_room(
    make: Make, small_disk: Sequence[str], tmp_path: Path
) -> None:
    # A socket on that disk would be out of the client's sight.
    daemon: Daemon = make("--socket", str(tmp_path / "muster.sock"), before=small_disk)
    daemon.start()
    daemon.sh("true", name="before").wait(60)
    # The daemon's own view of its folder; in ours nothing is mounted there.
    data = Path(f"/proc/{daemon.pid}/root{daemon.data}")
    assert (data / "muster.db").exists() and not (daemon.data / "muster.db").exists()
    filler = data / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(b"x" * 4096)
    before = {"before"}
    while not refused(daemon, name := f"fits-{len(before)}"):
        before.add(name)  # the journal's own file still has room in it
        assert len(before) < 500
    refused_while_full(daemon, "first", before=before)
    filler.unlink()
    goes_on(daemon, before)


def test_where_files_may_not_grow_nothing_is_done_until_they_may(make: Make) -> None:
    """As with a quota; the daemon cannot even write its own log."""
    daemon: Daemon = make()
    daemon.start()
    daemon.sh("true", name="before").wait(60)
    daemon.limit_files(0)
    refused_while_full(daemon, "first", "second", before={"before"})
    daemon.limit_files()
    goes_on(daemon, {"before"})


def refused_while_full(daemon: Daemon, *attempts: str, before: set[str]) -> None:
    """What changes something is refused, and nothing is started; questions are answered."""
    for attempt in attempts:
        assert refused(daemon, attempt) == 503
    assert daemon.client.status().trouble
    assert {job.name for job in daemon.client.jobs()} == before
    with pytest.raises(ClientError):
        daemon.record("first")
    assert daemon.strays() == {}
    assert not (daemon.work("first") / "ran").exists()


def refused(daemon: Daemon, name: str) -> int | None:
    """Submit a job that leaves a mark; the status of the refusal, None if it was accepted."""
    try:
        daemon.sh("touch ran", name=name)
    except ClientError as error:
        assert FULL in str(error)
        return error.status
    return None


def goes_on(daemon: Daemon, before: set[str]) -> None:
    """By itself, as soon as there is room."""
    until(lambda: not daemon.client.status().trouble, "it can write again")
    assert daemon.sh("touch ran", name="first").wait(60).status == "succeeded"
    assert daemon.sh("true", name="third").wait(60).status == "succeeded"
    assert {job.name for job in daemon.client.jobs()} == before | {"first", "third"}
