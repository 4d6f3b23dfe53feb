"""Two Unix users on one root daemon: each works as itself, and reads nothing of the other's."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.client import Client
from muster.client.errors import ClientError
from tests.live.conftest import Make
from tests.live.daemons import LONG, Daemon

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("useradd") is None, reason="needs root, to add two users"
)

WORKS = """
echo "$(id -un) $(id -u) $(id -gn) $(umask) $HOME $USER $(pwd)"
echo heard >> /dev/stderr
mkdir -p "$MUSTER_CHECKPOINT" && echo weights > "$MUSTER_CHECKPOINT/1"
echo "checkpoint $MUSTER_CHECKPOINT"
echo "process $$"
exec sleep 1000
"""
"""What the first user's job does."""

PRIES = """
for path in $PATHS; do
  cat "$path" > /dev/null 2>&1 && echo "READ $path"
  ls "$path/" > /dev/null 2>&1 && echo "LISTED $path"
done
kill -9 $PROCESS 2> /dev/null && echo "KILLED $PROCESS"
echo x 2> /dev/null > "$CHECKPOINT/2" && echo "WROTE there"
grep -q '^CapEff:.0*$' /proc/self/status || echo "CAPABLE"
echo done
"""
"""What the second user's job tries."""
CAPABLE = "grep -q '^CapEff:.0*$' /proc/self/status || echo CAPABLE"


@pytest.fixture
def users() -> Iterator[list[str]]:
    """Two users with homes that anybody may enter, as is usual."""
    homes = Path(tempfile.mkdtemp(prefix="muster-homes-"))
    homes.chmod(0o755)
    names = [f"muster{letter}{os.getpid()}" for letter in "ab"]
    try:
        for name in names:
            home = str(homes / name)
            subprocess.run(["useradd", "-m", "-d", home, "-s", "/bin/sh", name], check=True)
            (homes / name).chmod(0o755)
        yield names
    finally:
        for name in names:
            subprocess.run(["userdel", "-f", name], check=False, capture_output=True)
        shutil.rmtree(homes)


def home_of(user: str) -> str:
    return str(Path(f"~{user}").expanduser())


def run_as(client: Client, user: str, script: str, **environ: str) -> str:
    """Submit a script that works in its user's home; the job's number."""
    job = {
        "name": f"of-{user}",
        "command": ["sh", "-c", script],
        "folder": home_of(user),
        "env": {"PATH": "/usr/bin:/bin", **environ},
    }
    return str(client.submit(job).number)


def printed(client: Client, number: str, last: str) -> str:
    """What a job prints, until it says this."""
    lines: list[str] = []
    for line in client.logs(number, "worker-0", follow=True):
        lines.append(f"{line}\n")
        if last in line:
            break
    return "".join(lines)


def test_neither_reads_files_environment_logs_or_token_of_the_other(
    users: list[str], make: Make
) -> None:
    daemon = make("--run-as", "submitter", devices=2)
    daemon.start()
    first, second = users
    with daemon.client_of(first) as ann, daemon.client_of(second) as bob:
        working = run_as(ann, first, WORKS, SECRET="xyzzy")
        lines = printed(ann, working, "process").splitlines()
        uid = str(Path(home_of(first)).stat().st_uid)
        home = home_of(first)
        assert lines[:2] == [f"{first} {uid} {first} 0022 {home} {first} {home}", "heard"]
        checkpoint, process = lines[2].split()[1], lines[3].split()[1]
        assert Path(checkpoint).is_relative_to(home)
        assert Path(checkpoint, "1").owner() == first
        assert "xyzzy" in Path(f"/proc/{process}/environ").read_text(encoding="utf-8")
        paths = [checkpoint, f"{checkpoint}/1", f"/proc/{process}/environ", *daemons_files(daemon)]
        prying = run_as(
            bob, second, PRIES, PATHS=" ".join(paths), PROCESS=process, CHECKPOINT=checkpoint
        )
        bob.handle(prying).wait(LONG)
        assert printed(bob, prying, "done") == "done\n"
        for asked in (bob.job, bob.stop, lambda which: list(bob.logs(which))):
            with pytest.raises(ClientError):
                asked(working)
        with pytest.raises(ClientError):
            bob.exec(working, ["true"])
        entered = ann.exec(working, ["sh", "-c", f"id -un; pwd; {CAPABLE}; cat /etc/shadow"])
        assert entered.output.decode().splitlines() == [first, home]
        assert entered.code != 0
        ann.copy_to(working, __file__, f"{checkpoint}/2")
        assert Path(checkpoint, "2").owner() == first
        ann.stop(working)
        ann.handle(working).wait(LONG)
        session = ann.submit(
            {"name": "session", "command": ["sh", "-c", "id -un; tty; exit 3"], "interactive": "1h"},
            folder=home,
        )
        assert session.wait(LONG).exit_code == 3
        said = printed(ann, str(session.number), "/dev/pts")
        assert said.startswith(first)
    unknown = "user 'nosuchuser' does not exist on this machine"
    with pytest.raises(ClientError, match=unknown):
        daemon.client_of("nosuchuser")
    with pytest.raises(ClientError, match=unknown):
        daemon.client.submit({"command": ["true"], "name": "x", "user": "nosuchuser"})
    own = daemon.sh("id -un", name="own", folder="/")
    own.wait(LONG)
    assert printed(daemon.client, str(own.number), "root") == "root\n"


def daemons_files(daemon: Daemon) -> list[str]:
    """All that the daemon has written, and the owner's token."""
    written = [str(path) for path in (daemon.data, *daemon.data.rglob("*"))]
    assert any(path.endswith("order.json") for path in written)
    assert any(path.endswith("worker-0.log") for path in written)
    return [*written, str(daemon.home / "client.json")]


def test_nothing_that_a_daemon_writes_is_for_others(make: Make) -> None:
    """Also where its folder was made by an earlier version, open to all."""
    previous = os.umask(0o022)
    try:
        daemon = make(devices=1)
        daemon.data.mkdir()
        daemon.start()
    finally:
        os.umask(previous)
    job = daemon.client.submit(
        {"name": "writer", "command": ["sh", "-c", "umask; echo x > file"], "folder": str(daemon.data)}
    )
    job.wait(LONG)
    assert printed(daemon.client, str(job.number), "0") == "0022\n"
    entries = [daemon.data, *daemon.data.rglob("*")]
    open_to_others = [path for path in entries if path.lstat().st_mode & 0o077]
    assert open_to_others == [daemon.data / "file"]
