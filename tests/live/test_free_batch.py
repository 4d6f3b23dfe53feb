"""The daemon chooses the batch of a training that leaves it free."""

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.live.conftest import Make
from tests.live.daemons import LONG, Daemon, until

pytest.importorskip("torch")

SCRIPT = Path(__file__).with_name("scripts") / "batched.py"
SAMPLES, OWN = 2048, 8


@pytest.mark.slow
def test_the_batch_grows_by_order_and_every_sample_is_seen_once(make: Make) -> None:
    daemon: Daemon = make(devices=2)
    daemon.start()
    job = daemon.submit(
        sys.executable, str(SCRIPT), name="free", devices=2, batch=f"{OWN}..512", work=10_000
    )

    def ordered() -> bool:
        detail = daemon.detail("free")
        assert detail.job.error is None, detail.job.error
        texts = [change.text for change in detail.changes if ", batch " in change.text]
        return bool(texts) and texts[-1].endswith(f", batch {detail.job.batch}")

    until(ordered, "it uses the batch that the scheduler has chosen")
    assert (daemon.record("free").batch or 0) >= 4 * OWN
    shown = daemon.muster("show", "free").stdout
    line = next(line for line in shown.splitlines() if line.strip().startswith("batch"))
    assert f"of {OWN}..512, noise" in line and "efficiency" in line
    (daemon.work("free") / "go").touch()
    assert job.wait(LONG).status == "succeeded"
    text = (daemon.work("free") / "samples.jsonl").read_text(encoding="utf-8")
    steps = [json.loads(line) for line in text.splitlines()]
    assert len({step["batch"] for step in steps}) > 2
    seen: dict[int, Counter[int]] = {}
    for step in steps:
        seen.setdefault(step["epoch"], Counter()).update(step["ids"])
    for epoch, ids in seen.items():
        if epoch < max(seen):  # the last may be cut short
            assert ids == Counter(range(SAMPLES)), f"epoch {epoch}"
    assert len(seen) > 1
