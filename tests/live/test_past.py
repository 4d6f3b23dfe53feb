"""The past of a job, and a copy of the store, from real daemons."""

import sys
from pathlib import Path

import pytest

from tests.live.conftest import Make

REPORTS = """
import muster
for epoch in (1, 2, 3):
    muster.report(accuracy=epoch / 4)
"""


@pytest.mark.slow
def test_a_finished_job_is_shown_by_a_daemon_started_from_a_copy(make: Make, tmp_path: Path) -> None:
    first = make(devices=2)
    first.start()
    first.submit(sys.executable, "-c", REPORTS, name="short").wait(60)
    copy = tmp_path / "copy.db"
    made = first.muster("backup", copy, "--data", first.data)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(f"wrote {copy} (")
    second = make(name="b", devices=2)
    restored = second.muster("restore", copy, "--data", second.data)
    assert restored.returncode == 0, restored.stderr
    second.start()
    for client in (first.client, second.client):
        (curve,) = client.curves("short").curves
        assert (curve.what, curve.steps, curve.values) == ("accuracy", (1, 2, 3), (0.25, 0.5, 0.75))
        assert [span.status for span in client.timeline()] == ["starting", "running"]
    listed = second.muster("timeline", "--since", "1h").stdout.splitlines()
    assert "1 (short)" in listed[1] and "n0[0]" in listed[1]
