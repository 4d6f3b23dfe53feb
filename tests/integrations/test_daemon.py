"""A fine-tuning as a job of the daemon: its workers are Muster's, whatever its environment says."""

import sys
from pathlib import Path

import pytest

from tests.live.conftest import Make, make
from tests.live.daemons import Daemon, until

__all__ = ["make"]

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks/support/lines/hf_muster.py"


def test_a_fine_tuning_is_one_training_of_two_workers_and_keeps_checkpoints(make: Make) -> None:
    pytest.importorskip("transformers")
    daemon: Daemon = make(devices=2)
    daemon.start()
    job = daemon.submit(sys.executable, str(SCRIPT), "--samples", "2048", name="tuned", devices=2)
    until(lambda: (daemon.record("tuned").step or 0) > 0, "it trains")
    assert daemon.record("tuned").workers == 2
    assert job.wait(120).status == "succeeded"
    record = daemon.record("tuned")
    assert (record.step, record.failures, record.losses) == (96, 0, 0), "2,048 samples, 64 at a time"
    said = daemon.muster("logs", "tuned").stdout
    finals = {line.split("final loss ")[1] for line in said.splitlines() if "final loss " in line}
    assert len(finals) == 1, "all workers have the same result"
    assert list(daemon.data.rglob("trainer/step-*.pt"))
