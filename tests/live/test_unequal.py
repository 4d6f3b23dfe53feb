"""One training on devices of two types, each with the part of the batch that suits it."""

import json
import sys
from pathlib import Path

import pytest

from tests.live.conftest import Make
from tests.live.daemons import LONG, Daemon, until

pytest.importorskip("torch")

SCRIPT = Path(__file__).with_name("scripts") / "two_types.py"
CLUSTER = """\
name: unequal
configurations:
  new: {device: A100, devices: 1, cores: 2, memory: 4GB}
  old: {device: T4, devices: 1, cores: 2, memory: 4GB}
nodes:
  n0: new
  n1: old
"""


def start(make: Make, folder: Path) -> Daemon:
    file = folder / "cluster.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    daemon = make(cluster=file, devices=2)
    daemon.start()
    return daemon


def nodes_of(daemon: Daemon, name: str) -> set[str]:
    record = daemon.record(name)
    return set(record.nodes) if record.status == "running" else set()


@pytest.mark.slow
def test_a_training_spans_two_types_that_are_idle(make: Make, tmp_path: Path) -> None:
    daemon = start(make, tmp_path)
    words = (sys.executable, str(SCRIPT), "--steps", "400")
    handle = daemon.submit(*words, name="wide", devices="1..2")
    until(lambda: nodes_of(daemon, "wide") == {"n0", "n1"}, "it has both devices")

    # A job that only the T4 will do gets it, and the training goes on with the other.
    other = daemon.submit("sleep", "1", name="other", devices="T4:1")
    assert other.wait(LONG).status == "succeeded"
    until(lambda: nodes_of(daemon, "wide") == {"n0", "n1"}, "it has both again")
    (daemon.work("wide") / "go").touch()
    ended = handle.wait(LONG)
    assert ended.status == "succeeded", ended.error
    lines = (daemon.work("wide") / "steps.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["step"] for line in lines} == set(range(400))
