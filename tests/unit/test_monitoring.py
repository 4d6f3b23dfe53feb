"""The dashboard and the alerts of `examples` are about series that exist, and fire when they should."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "examples" / "prometheus"
SERIES = re.compile(r"\b(?:muster|process)_[a-z_]+")
ENDINGS = re.compile(r"_(bucket|sum|count)$")


def known() -> set[str]:
    """The series of the page, which another test compares with the code."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    own = set(re.findall(r"^\| `(muster_\w+)", page, re.MULTILINE))
    return own | {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def named(expression: str) -> set[str]:
    return {ENDINGS.sub("", name) for name in SERIES.findall(expression)}


def test_every_panel_asks_for_series_that_exist() -> None:
    board = json.loads((ROOT / "examples" / "grafana" / "muster.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            assert named(target["expr"]), panel["title"]
            assert not named(target["expr"]) - known(), panel["title"]
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    assert len({*places}) == len(places)
    assert len({panel["id"] for panel in board["panels"]}) == len(places)


def test_every_alert_asks_for_series_that_exist_and_says_what_to_do() -> None:
    (group,) = yaml.safe_load((ALERTS / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        assert not named(rule["expr"]) - known(), rule["alert"]
        assert rule["annotations"]["summary"] and rule["annotations"]["action"], rule["alert"]


@pytest.mark.parametrize(
    "words",
    [
        ("check", "rules", "alerts.yaml"),
        ("test", "rules", "alerts_test.yaml"),
        ("check", "config", "--syntax-only", "prometheus.yaml"),
    ],
    ids=["rules", "firing", "scraping"],
)
def test_prometheus_accepts_them_and_they_fire_when_they_should(words: tuple[str, ...]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run([promtool, *words], cwd=ALERTS, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
