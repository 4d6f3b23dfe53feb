"""Forecasts of live jobs: told while they wait and run, before submission, and held to account."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from muster.daemon.foresight.past_notes import note_of
from muster.foresight.past import PastJob
from muster.store.batch import Batch
from muster.store.store import open_store
from muster.wire.api.records import JobRecord
from tests.builders import job
from tests.live.conftest import Make
from tests.live.daemons import Daemon, until

LINE = 'while [ ! -e "$FLAG" ]; do sleep 0.1; done'
LIKE = 4
"""Jobs of the same command that have ended: one more than a forecast must rest on."""
HOUR = 3600.0
"""s that each of them took, as far as the daemon knows: however busy the machine, none that runs in the
test outlives them."""


def forecast(daemon: Daemon, name: str) -> JobRecord | None:
    record = daemon.record(name)
    return record if record.rests_on is not None else None


def scored(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(daemon.muster("accuracy", "--of", "start", "--json").stdout)
    return found


@pytest.fixture
def busy(make: Make) -> Daemon:
    """One device, held by a job that is like some that took an hour, and a job behind it."""
    daemon = make(devices=1)
    _remember(daemon, LINE)
    daemon.start()
    done = daemon.data / "done"
    done.touch()
    daemon.sh(LINE, name="runs", env={"FLAG": str(daemon.data / "go")})
    daemon.await_status("runs", "running")
    daemon.sh(LINE, name="waits", env={"FLAG": str(done)})
    return daemon


def _remember(daemon: Daemon, line: str) -> None:
    """Let jobs of this line have ended, each after an hour or more."""
    daemon.data.mkdir(parents=True, exist_ok=True)
    store = open_store(str(daemon.data / "muster.db"))
    assert store.claim()
    now = time.time()
    for n in range(1, LIKE + 1):
        like = job(f"like{n}", command=("sh", "-c", line), number=9_000 + n)
        past = PastJob(like, now - (LIKE + 2 - n) * 3 * HOUR, HOUR * (1 + n / 10), over=True)
        note = note_of(past, ("cpu",), now)
        assert note is not None
        store.write(Batch(notes=(note,)))
    store.close()


@pytest.mark.slow
def test_forecasts_follow_jobs_from_before_submission_to_the_account(busy: Daemon) -> None:
    waits = until(lambda: forecast(busy, "waits"), "a forecast of a job that waits")
    assert waits.rests_on == LIKE
    assert waits.predicted_start is not None and waits.start_low <= waits.start_high
    assert waits.finish_low <= waits.finish_high and waits.finish_low >= waits.start_low
    listed = busy.muster("ps").stdout
    assert "80% INTERVAL" in listed and "START" in listed
    shown = busy.muster("show", "waits").stdout
    assert "expected to start" in shown and f"rests on {LIKE} similar jobs" in shown
    series = busy.client.connection.ask("GET", "/metrics").text
    assert "muster_forecast_jobs" in series and "muster_expected_wait_seconds" in series

    def asked() -> bool:
        """Whether the future was played before submission; a busy machine may have no time for it."""
        said = busy.muster("run", "--dry-run", "--name", "next", "--", "sh", "-c", "true")
        assert said.returncode == 1, said.stderr
        return "80% interval" in said.stdout

    until(asked, "a forecast before submission")

    (busy.data / "go").touch()
    busy.await_status("waits", "succeeded")
    kept = until(
        lambda: [e for e in busy.client.forecasts("waits") if e.came is not None],
        "forecasts that came true",
    )
    assert {each.what for each in kept} >= {"start"}
    told = scored(busy)
    assert told["forecasts"] >= 1
    busy.stop()
    busy.start()
    assert scored(busy)["groups"] == told["groups"]
    page = busy.muster("accuracy", "--of", "start").stdout
    assert "COVERED" in page and "OUTCOMES BEFORE THE QUANTILE" in page


@pytest.mark.slow
def test_forecasts_go_on_after_their_process_was_killed(busy: Daemon) -> None:
    until(lambda: forecast(busy, "waits"), "a forecast")
    (child,) = _children(busy.pid, "muster.daemon.foresight")
    os.kill(child, signal.SIGKILL)
    assert busy.record("runs").status == "running"
    # The killed one is there until it is reaped.
    until(lambda: {*_children(busy.pid, "muster.daemon.foresight")} - {child}, "another process")


def _children(parent: int, module: str) -> list[int]:
    """Processes of a parent that run a module."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_text().split("\0")
            above = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if above == parent and module in words:
            found.append(int(place.name))
    return found
