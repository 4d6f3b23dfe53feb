"""What real jobs have held: by user, pool, label and application; waste; budgets that hold back."""

import csv
import io
import json
from typing import Any

from tests.live.conftest import Make
from tests.live.daemons import Daemon, until


def rows(daemon: Daemon, *words: str) -> dict[str, dict[str, str]]:
    """The rows of a bill, by its first column."""
    printed = daemon.muster("usage", "--since", "today", *words, "-o", "csv").stdout
    return {next(iter(row.values())): row for row in csv.DictReader(io.StringIO(printed))}


def ran(daemon: Daemon, seconds: float, code: int = 0, **fields: Any) -> float:
    """Run a job to its end; return the s for which it ran."""
    line = f"sleep {seconds}; exit {code}"
    job = daemon.client.submit({"command": ["sh", "-c", line], **fields}).wait()
    assert job.status == ("failed" if code else "succeeded"), job.error
    return (job.ended or 0.0) - (job.started or 0.0)


def test_the_bill_has_what_each_held_and_what_of_it_was_in_vain(daemon: Daemon) -> None:
    about: dict[str, Any] = {"labels": {"bill": "vision"}, "application": "billed"}
    ran(daemon, 1.0, devices=2, **about)
    vain = ran(daemon, 1.0, 3, **about)
    ran(daemon, 0.0, labels={"bill": "speech"})
    bill = rows(daemon, "--by", "label:bill")
    vision = bill["vision"]
    held, lost = (3600 * float(vision[name]) for name in ("device_hours", "lost"))
    assert vision["jobs"] == "2"
    assert held >= 2 * 1.0 + 1.0, "each worker slept for a second on its device"
    assert 0 < lost <= vain < held
    assert float(vision["idle"]) > 0
    assert float(bill["speech"]["lost"]) == 0
    assert rows(daemon, "--by", "application")["billed"]["device_hours"] == vision["device_hours"]
    assert "default" in rows(daemon, "--by", "pool")
    told = json.loads(daemon.muster("usage", "--by", "user", "--json").stdout)
    assert told["by"] == ["user"]
    assert 3600 * told["total"]["device_hours"] >= held


def test_a_budget_that_is_used_up_holds_jobs_back_until_it_is_raised(make: Make) -> None:
    daemon = make()
    daemon.start()
    ran(daemon, 1.0)
    assert daemon.muster("pool", "set", "default", "--budget", "0.0001").returncode == 0
    late = daemon.client.submit({"name": "late", "command": ["true"]})
    until(lambda: daemon.record(str(late.number)).code == "waiting.budget")
    why = daemon.muster("why", "late", "--no-advice").stdout
    assert "pool default has used" in why
    assert "of 0.0001 device-hours" in why
    daemon.muster("pool", "set", "default", "--budget", "none")
    assert late.wait().status == "succeeded"
    user = daemon.record(str(late.number)).user
    daemon.muster("limit", "set", user, "--device-hours", "0.0001")
    later = daemon.client.submit({"name": "later", "command": ["true"]})
    until(lambda: daemon.record(str(later.number)).code == "waiting.budget")
    daemon.muster("limit", "set", user, "--device-hours", "none")
    assert later.wait().status == "succeeded"
