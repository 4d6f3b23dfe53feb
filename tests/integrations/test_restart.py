"""Unmodified scripts of the frameworks as gangs that are resized by a restart."""

import re
import sys
from pathlib import Path

import pytest

from tests.live.conftest import Make, make
from tests.live.daemons import Daemon, until

__all__ = ["make"]

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples/frameworks"
SCRIPTS = {
    "transformers": ("checkpoint-*", ["--steps", "400"]),
    "lightning": ("last.ckpt", ["--epochs", "60"]),
    "accelerate": ("epoch-*", ["--epochs", "60"]),
}
"""What each saves, and how long it trains."""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_resized_from_its_own_checkpoints(name: str, make: Make) -> None:
    pytest.importorskip(name)
    saved, arguments = SCRIPTS[name]
    daemon: Daemon = make(devices=2)
    daemon.start()
    script = str(EXAMPLES / f"train_{name}.py")
    command = (sys.executable, script, *arguments)
    daemon.submit(*command, name=name, devices="1..2", elastic="restart", grace="5s")
    out = daemon.work(name) / "out"
    until(lambda: list(out.glob(saved)), "it has saved a checkpoint")
    assert daemon.record(name).workers == 2
    assert daemon.muster("resize", name, "1").returncode == 0
    until(lambda: daemon.record(name).workers == 1, "it has been resized")
    record = daemon.await_status(name, "succeeded")
    assert (record.generation, record.failures, record.losses) == (2, 0, 0)
    said = daemon.muster("logs", name).stdout
    assert re.search(r"resuming from .*out/\S+ with 1 workers", said), said
    assert "final loss" in said
