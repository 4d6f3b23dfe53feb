"""`muster up` and `muster down`: options, the daemon in the background, and its file."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.app import up
from muster.app.daemon_folder import (
    PID_FILE,
    DaemonStatus,
    TakenError,
    held,
    holder,
    read_status,
    write_status,
)
from muster.app.managed import submitters_of
from muster.app.options import Listening, UpOptions
from muster.cli.daemon.commands import data_folder
from muster.cli.daemon.stop import last_daemon
from muster.client.connecting.settings import ClientSettings, write_settings
from muster.files.errors import InputError
from tests.unit.cli.invoke import muster

LIMIT = 60.0
"""Seconds for a process to start on a busy machine."""

DAEMON = """
import os, signal, sys, threading

import muster.app.up
from muster.app.daemon_folder import DaemonStatus, held, write_status
from muster.app.options import Listening
from muster.cli.main import main


def start(options, ready):
    if options.policy == "fifo":
        sys.exit("the disk is full")
    done = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: done.set())
    said = Listening(url="http://127.0.0.1:7077", cluster="lab", nodes=1, devices=options.devices,
                     device_types=("cpu",), policy=options.policy, data=str(options.data),
                     token_file="client.json")
    with held(options.data):
        if options.policy == "drf":
            write_status(options.data, DaemonStatus(os.getpid(), "standby"))
        else:
            write_status(options.data, DaemonStatus(os.getpid(), "ready", said))
            ready(said)
        done.wait()


muster.app.up.run = start
main()
"""
"""A daemon that does nothing but live."""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The command `up` of that daemon, as a process of its own; whatever it leaves is ended."""
    script = tmp_path / "daemon.py"
    script.write_text(DAEMON, encoding="utf-8")
    data = tmp_path / "data"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), "up", "--data", str(data), *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)

    yield run
    pid = holder(data)
    if pid is not None:
        os.kill(pid, 9)


Start = Callable[[UpOptions, Callable[[Listening], None]], None]
Run = Callable[[Start], None]


@pytest.fixture
def started_by(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Put something in the place of the daemon."""
    return lambda start: monkeypatch.setattr(up, "run", start)


def options_of(started_by: Run, *words: object) -> UpOptions:
    """What a daemon would be started with."""
    given: list[UpOptions] = []
    started_by(lambda options, ready: given.append(options))
    muster("up", *words)
    return given[0]


def test_a_daemon_gets_what_was_asked_for(tmp_path: Path, started_by: Run) -> None:
    words = (
        "--devices 8 --policy fifo --host 0.0.0.0 --port 0 --no-auth --let-anyone-run-code "
        "--interval 5s --log-format json --no-tls --allow-host gpu1 --allow-host gpu1.lab"
    )
    options = options_of(
        started_by, *words.split(), "--data", tmp_path, "--store", "postgresql://db/muster"
    )
    assert options == UpOptions(
        data=tmp_path,
        devices=8,
        policy="fifo",
        host="0.0.0.0",
        port=0,
        store="postgresql://db/muster",
        auth=False,
        interval=5.0,
        log_format="json",
        tls=False,
        allow_hosts=("gpu1", "gpu1.lab"),
    )


def test_it_listens_to_this_machine_alone_and_wants_tokens_unless_told(
    tmp_path: Path, started_by: Run
) -> None:
    options = options_of(started_by, "--data", tmp_path)
    assert (options.host, options.auth) == ("127.0.0.1", True)


def test_its_folder_is_below_the_home_of_muster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    assert data_folder(None) == tmp_path / "data"
    monkeypatch.delenv("MUSTER_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_folder(None) == tmp_path / "muster"


REFUSED = {
    "--devices 8 --topology 2x4": "--devices: conflicts with --topology",
    "--tls-cert a.pem": "--tls-cert: requires --tls-key",
    "--policy musterd": "did you mean 'muster'?",
    "--interval 0": "--interval: must be above 0",
    "--interval 60": "'60' has no unit",
    "--no-auth --host 0.0.0.0": "--no-auth: with --host 0.0.0.0 everyone who can reach this machine",
    "--no-auth --host ::": "or add --let-anyone-run-code",
    "--no-auth --host gpu1": "or add --let-anyone-run-code",
    "--no-auth --host 0.0.0.0 -b": "or add --let-anyone-run-code",
    "--store postgresql://muster:hunter2@db/muster": "--store-file",
    "--store postgresql://db/muster?password=hunter2": "MUSTER_STORE",
    "--store postgresql://muster:hunter2@[db/muster": "~/.pgpass",
    "--store a.db --store-file b": "--store: conflicts with --store-file",
    "--store-file /nowhere/at/all": "--store-file: cannot read /nowhere/at/all",
}


@pytest.mark.parametrize(("words", "problem"), REFUSED.items())
def test_options_that_cannot_be_are_refused(words: str, problem: str, started_by: Run) -> None:
    started_by(lambda *_: pytest.fail("it was started"))
    result = muster("up", *words.split(), code=1)
    assert problem in str(result.exception)
    assert "hunter2" not in result.output + str(result.exception)


def test_the_stores_password_comes_from_a_file_or_the_environment(
    tmp_path: Path, started_by: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://muster:hunter2@db/muster"
    (tmp_path / "store").write_text(f"{url}\n", encoding="utf-8")
    assert options_of(started_by, "--store-file", tmp_path / "store").store == url
    monkeypatch.setenv("MUSTER_STORE", url)
    assert options_of(started_by).store == url
    assert options_of(started_by, "--store", "a.db").store == "a.db"


def test_paths_of_certificates_are_made_absolute(
    tmp_path: Path, started_by: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are handed to clients, which work elsewhere."""
    monkeypatch.chdir(tmp_path)
    words = ("--tls-cert", "c.pem", "--tls-key", "k.pem", "--socket", "m.sock")
    options = options_of(started_by, *words)
    assert (options.tls_cert, options.tls_key) == (tmp_path / "c.pem", tmp_path / "k.pem")
    assert options.socket == tmp_path / "m.sock"


def test_a_daemon_says_where_it_is_and_what_to_type_next(tmp_path: Path, started_by: Run) -> None:
    def start(options: UpOptions, ready: Callable[[Listening], None]) -> None:
        ready(
            Listening(
                url="http://127.0.0.1:7077",
                cluster="lab",
                nodes=2,
                devices=8,
                device_types=("cpu",),
                policy="muster",
                data=str(options.data),
                token_file=None,
                jobs=3,
                caveats=("memory and cores are not enforced: no cgroup file system is mounted",),
            )
        )

    started_by(start)
    lines = muster("up", "--data", tmp_path).stdout.splitlines()
    assert lines == [
        "muster is listening on http://127.0.0.1:7077",
        "  cluster  lab: 2 nodes, 8 devices (cpu), policy muster",
        f"  folder   {tmp_path}",
        "  token    not needed",
        "  jobs     3 jobs reattached",
        "  note     memory and cores are not enforced: no cgroup file system is mounted",
        "next: muster run train.py · muster ps · muster open · muster down",
    ]


@pytest.mark.parametrize(
    ("run_as", "uid", "separate"),
    [(None, 0, True), ("submitter", 0, True), ("daemon", 0, False), (None, 1000, False)],
)
def test_jobs_run_as_their_submitters_where_the_daemon_is_roots(
    run_as: str | None, uid: int, separate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert submitters_of(run_as).separate is separate


def test_who_is_not_root_cannot_run_jobs_as_their_submitters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(InputError, match="requires a daemon that runs as root"):
        submitters_of("submitter")


def test_a_port_that_is_taken_is_said_in_a_line(tmp_path: Path, started_by: Run) -> None:
    def start(options: UpOptions, ready: Callable[[Listening], None]) -> None:
        raise OSError(errno.EADDRINUSE, "Address already in use")

    started_by(start)
    result = muster("up", "--data", tmp_path, code=1)
    assert result.stderr == (
        "muster: cannot listen on 127.0.0.1:7077: Address already in use; try another --port\n"
    )


def test_a_daemon_in_the_background_says_that_it_is_ready_and_can_be_stopped(
    daemon: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    started = daemon("-b", "--devices", "8")
    assert started.returncode == 0, started.stderr
    assert started.stdout.startswith("muster is listening on http://127.0.0.1:7077\n")
    assert holder(data) is not None
    again = daemon("--devices", "8")
    assert again.returncode == 1
    assert f"already uses {data}" in again.stderr
    assert "the next `muster up` reattaches" in muster("down", "--data", data).stdout
    assert holder(data) is None


def test_a_daemon_that_does_not_start_shows_its_log(
    daemon: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    started = daemon("-b", "--policy", "fifo")
    assert started.returncode == 1
    assert "did not start" in started.stderr
    assert "the disk is full" in started.stderr


def test_a_daemon_that_does_not_start_shows_no_lines_of_an_earlier_one(
    daemon: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "daemon.log").write_text("the disk was on fire\n", encoding="utf-8")
    started = daemon("-b", "--policy", "fifo")
    assert "the disk is full" in started.stderr
    assert "on fire" not in started.stderr


def test_a_standby_in_the_background_says_so_and_is_left_running(
    daemon: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    started = daemon("-b", "--policy", "drf")
    assert started.returncode == 0, started.stderr
    assert started.stdout.startswith("standby: another daemon uses the store")
    assert holder(tmp_path / "data") is not None


def test_the_status_file_lives_as_long_as_its_daemon(tmp_path: Path) -> None:
    with held(tmp_path):
        assert read_status(tmp_path) == DaemonStatus(os.getpid(), "starting")
        write_status(tmp_path, DaemonStatus(os.getpid(), "standby"))
        assert read_status(tmp_path) == DaemonStatus(os.getpid(), "standby")
    assert read_status(tmp_path) is None


def test_a_daemon_that_is_not_there_cannot_be_stopped(tmp_path: Path) -> None:
    assert "start one with `muster up`" in muster("down", "--data", tmp_path, code=104).stderr


def test_a_file_left_behind_by_a_killed_daemon_names_nobody(tmp_path: Path) -> None:
    """The number in it may be anybody's by now: this process's, say."""
    (tmp_path / PID_FILE).write_text(f"{os.getpid()}\n", encoding="ascii")
    assert holder(tmp_path) is None
    muster("down", "--data", tmp_path, code=104)


def test_a_folder_has_one_daemon(tmp_path: Path) -> None:
    with held(tmp_path):
        assert holder(tmp_path) == os.getpid()
        with pytest.raises(TakenError, match=str(os.getpid())), held(tmp_path):
            pass
        assert holder(tmp_path) == os.getpid()
    with held(tmp_path):
        pass


def test_down_finds_the_daemon_that_was_started_last_whatever_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    usual, other = tmp_path / "data", tmp_path / "other"
    write_settings(ClientSettings("unix:///muster.sock", data=str(other)))
    for folder in (usual, other):
        folder.mkdir()
    assert last_daemon(usual) == usual
    with held(other):
        assert last_daemon(usual) == other
        with held(usual):
            assert last_daemon(usual) == usual
