"""The command line through the real client and the real API, down to a service that keeps dicts."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from muster.cli import connect
from muster.client import Client
from tests.unit.api.harness import Api, running_api
from tests.unit.cli.invoke import muster

LIMIT = 60.0
"""Seconds until something must have happened, on a busy machine."""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Api]:
    """An administrator in a folder with a script."""
    (tmp_path / "train.py").write_text("print('hello')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with running_api() as found:
        monkeypatch.setattr(connect, "connect", lambda: found.client("root"))
        yield found


def once(true: Callable[[], bool]) -> None:
    """Wait until it is."""
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_job_from_its_submission_to_its_end(api: Api) -> None:
    """Followed: what it prints while it runs is printed here, and its end is this command's."""

    def life() -> None:
        once(lambda: 1 in api.service.entries)
        api.do(lambda: api.service.start(1, workers=2))
        api.do(lambda: api.service.print(1, "1/worker-1", b"step 1\nstep 2\n"))
        api.do(lambda: api.service.end(1, "failed"))

    thread = threading.Thread(target=life)
    thread.start()
    result = muster("run", "-y", "-f", "-d", "1..2", "train.py", code=100)
    thread.join(LIMIT)
    assert result.stdout.splitlines() == ["1/worker-1 | step 1", "1/worker-1 | step 2"]
    assert "job 1 (train) failed" in result.stderr
    assert muster("wait", "train", code=100).stdout == ""
    assert muster("logs", "1", "worker-1", "-n", "1").stdout == "step 2\n"
    assert muster("logs", "1", "-f", "-n", "1").stdout == "1/worker-1 | step 2\n"
    assert [line.split()[3] for line in muster("ps", "-a").stdout.splitlines()] == ["STATUS", "failed"]


def test_a_job_is_resized_stopped_and_shown(api: Api) -> None:
    assert muster("run", "-y", "train.py", "--name", "a").stdout.endswith("job 1 (a) submitted\n")
    api.do(lambda: api.service.start(1))
    muster("resize", "a", "2..6")
    muster("wait", "a", "--timeout", "0", code=101)
    assert muster("stop", "1", "-y").stdout == "job 1 (a): cancelled\n"
    assert "Started" in muster("show", "a").stdout
    assert json.loads(muster("show", "a", "-o", "json").stdout)["job"]["status"] == "cancelled"
    muster("wait", "a", code=103)


def test_nouns_reach_the_daemon(api: Api) -> None:
    muster("pool", "set", "research", "--reservation", "2", "--limit", "6")
    assert "research  cluster  cpu" in muster("pool", "list").stdout
    muster("pool", "remove", "research", "-y")
    assert "draining" in muster("node", "drain", "n1").stdout
    assert muster("policy", "set", "fifo").stdout.startswith("fifo")
    assert muster("token", "create", "laptop", "-u", "ada").stdout.strip()
    assert "laptop" in muster("token", "list").stdout
    muster("token", "revoke", "laptop", "-y")
    assert "PROGRESS" in muster("top", "--once").stdout or "No jobs" in muster("top", "--once").stdout


def test_refusals_have_their_codes(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    muster("show", "7", code=102)
    muster("logs", "7", code=102)
    assert "64" in muster("run", "-y", "-d", "99", "train.py", code=2).stderr
    monkeypatch.setattr(connect, "connect", lambda: api.client("ada"))
    muster("policy", "set", "fifo", code=105)
    monkeypatch.setattr(connect, "connect", lambda: api.client("nobody"))
    assert "MUSTER_API_TOKEN" in muster("ps", code=105).stderr


def test_where_nobody_listens_it_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No daemon was ever started by this user; and one that was named is not there."""
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    monkeypatch.delenv("MUSTER_URL", raising=False)
    assert "muster up" in muster("ps", code=104).stderr
    nobody = "http://127.0.0.1:1"
    monkeypatch.setattr(connect, "connect", lambda: Client(nobody, patience=0.0))
    assert f"no daemon answers at {nobody}" in muster("ps", code=104).stderr


def test_a_job_is_held_released_requeued_and_reprioritised(api: Api) -> None:
    muster("run", "-y", "train.py", "--name", "a")
    assert "job 1 (a): waiting, held by root" in muster("hold", "a").stdout
    assert muster("release", "1").stdout == "job 1 (a): waiting\n"
    assert muster("requeue", "a").stdout.startswith("job 1 (a): ")
    assert muster("priority", "a", "7").stdout == "job 1 (a): priority 7\n"
    assert muster("priority", "a", "-3").stdout == "job 1 (a): priority -3\n"
    assert muster("until", "a", "loss < 0.1").stdout == "job 1 (a): ends by loss < 0.1\n"
    assert muster("until", "a", "none").stdout == "job 1 (a): ends by its own epochs or steps\n"
    assert muster("stop", "a", "-y", "--force").stdout == "job 1 (a): cancelled\n"
