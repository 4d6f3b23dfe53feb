"""Two daemons on one store: one is in charge, the other takes over where that one was."""

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.live.conftest import Make
from tests.live.daemons import Daemon, until

TALLY = "echo $$ >> starts; until test -e go; do sleep 0.05; done"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "shared.db")
    return str(request.getfixturevalue("postgres")())


def test_the_standby_takes_over_without_running_anything_twice(make: Make, url: str) -> None:
    first: Daemon = make("--store", url, name="first")
    second: Daemon = make("--store", url, name="second")
    first.start()
    lives = first.sh(TALLY, name="lives")
    first.await_status("lives", "running")
    work = first.work("lives")
    (pid,) = until(lambda: numbers(work / "starts"))
    ends = first.sh(TALLY, name="ends")
    first.await_status("ends", "running")

    second.launch()
    until(lambda: "standby" in second.log.read_text(encoding="utf-8"), "it says that it is standby")
    assert not second.is_ready and second.runs

    first.kill()
    (first.work("ends") / "go").touch()  # perhaps while nobody looks
    second.await_ready()
    record = second.record(str(lives.number))
    assert (record.status, record.name) == ("running", "lives")
    assert second.client.handle(ends.number).wait(60).status == "succeeded"
    os.kill(pid, 0)

    (work / "go").touch()
    assert second.client.handle(lives.number).wait(60).status == "succeeded"
    assert numbers(work / "starts") == [pid]
    assert len(numbers(first.work("ends") / "starts")) == 1
    third = second.sh("echo still here", name="later")
    assert third.number == ends.number + 1
    assert third.wait(60).status == "succeeded"
    assert first.strays() == {}


def test_a_standby_can_be_left_running(make: Make, tmp_path: Path) -> None:
    store, data = str(tmp_path / "shared.db"), str(tmp_path / "second")
    first: Daemon = make("--store", store, name="first")
    first.start()
    said = first.muster("up", "--devices", "2", "--store", store, "--data", data, "--port", "0", "-b")
    assert (said.returncode, said.stdout.partition(":")[0]) == (0, "standby")
    ended = first.muster("down", "--data", data)
    assert ended.returncode == 0, ended.stderr


def test_a_daemon_that_has_lost_its_database_leaves_the_field(
    make: Make, postgres: Callable[[], str]
) -> None:
    """It cannot know who is in charge by now; its jobs go on, and the next daemon finds them."""
    url = postgres()
    daemon: Daemon = make("--store", url)
    daemon.start()
    daemon.sh(TALLY, name="lives")
    daemon.await_status("lives", "running")
    with psycopg.connect(url, autocommit=True) as connection:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        connection.execute(f"SELECT pg_terminate_backend(pid) {others}".encode())
    assert until(lambda: not daemon.runs and daemon.code) == 1
    daemon.start()
    assert daemon.record("lives").status == "running"
    (daemon.work("lives") / "go").touch()
    assert daemon.client.handle("lives").wait(60).status == "succeeded"
    assert len(numbers(daemon.work("lives") / "starts")) == 1


def test_what_a_daemon_cannot_begin_with_is_told_in_a_line(make: Make) -> None:
    daemon: Daemon = make(devices=2)
    daemon.start()
    daemon.sh("exec sleep 600", name="lives")
    daemon.await_status("lives", "running")
    assert daemon.stop() == 0
    up = ("up", "--port", "0", "--data", daemon.data)
    larger = daemon.muster(*up, "--devices", "3")
    assert larger.returncode == 2
    assert "these jobs are active: lives" in larger.stderr.splitlines()[-1]
    assert "Traceback" not in larger.stderr
    elsewhere = daemon.muster(*up, "--devices", "2", "--store", "mysql://a/b")
    assert (elsewhere.returncode, elsewhere.stderr.count("\n")) == (2, 1)
    daemon.start()
    assert daemon.record("lives").status == "running"


def numbers(path: Path) -> list[int]:
    """What processes have left there."""
    return [int(line) for line in path.read_text(encoding="ascii").split()] if path.exists() else []
