"""Trainings that end by their loss, and one whose loss no longer falls, under a real daemon."""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from muster.client import Handle
from muster.ending import Trend, parse_ending
from muster.wire.api.records import JobRecord
from tests.live.conftest import Make
from tests.live.daemons import Daemon, until

pytest.importorskip("torch")

SCRIPT = Path(__file__).parent / "scripts" / "curve_train.py"
UNTIL = "converged 0.5%"
CURVE = [1 / (0.1 * k + 0.8) + 0.2 for k in range(1, 200)]


def truth(losses: Sequence[float]) -> int:
    """The epochs after which a training with these losses ends."""
    ending, trend = parse_ending(UNTIL), Trend()
    for epoch, loss in enumerate(losses, 1):
        trend = ending.after(trend, loss)
        if ending.is_met(trend, loss):
            return epoch
    raise AssertionError("never ends")


def submit(daemon: Daemon, losses: Sequence[float], *words: str, **fields: object) -> Handle:
    file = daemon.folder / "losses.json"
    file.write_text(json.dumps(losses))
    return daemon.submit(sys.executable, str(SCRIPT), str(file), *words, name="curve", **fields)


def at_gate(daemon: Daemon, epoch: int, before: JobRecord | None = None) -> JobRecord:
    """The job at a gate, once a prediction is there that was not seen before."""

    def known() -> JobRecord | None:
        record = daemon.record("curve")
        news = record.epochs is not None and (before is None or record.epochs != before.epochs)
        return record if news and record.epoch == epoch - 1 else None

    found: JobRecord = until(known, f"epoch {epoch}")
    return found


def open_gate(daemon: Daemon, epoch: int) -> None:
    (daemon.work("curve") / f"go-{epoch}").touch()


@pytest.mark.slow
def test_the_interval_of_a_training_that_ends_by_its_loss_shrinks(make: Make) -> None:
    daemon = make(devices=1)
    daemon.start()
    whole = truth(CURVE)
    first, second = whole // 3, 3 * whole // 4
    job = submit(daemon, CURVE, "--gates", str(first), str(second), until=UNTIL)
    early = at_gate(daemon, first)
    open_gate(daemon, first)
    late = at_gate(daemon, second, early)
    shown = daemon.muster("forecast", "curve").stdout
    open_gate(daemon, second)
    assert job.wait(60).status == "succeeded"
    assert early.epochs is not None and late.epochs is not None
    widths = [high - low for _, low, high in (early.epochs, late.epochs)]
    assert widths[1] < widths[0]
    for mean, low, high in (early.epochs, late.epochs):
        assert abs(mean - whole) <= 0.25 * whole
        assert low <= whole <= high
    assert late.finish_low is not None and late.finish_high is not None
    assert late.until == "converged 0.5% for 3 epochs"
    assert "80% interval" in shown
    assert daemon.record("curve").step == 2 * whole


def test_a_job_that_has_converged_says_so_and_runs_on(make: Make) -> None:
    daemon = make(devices=1)
    daemon.start()
    losses = [*CURVE[:20], *[CURVE[20]] * 10]
    job = submit(daemon, losses, "--epochs", "32", "--gates", "30")
    record = until(lambda: (found := daemon.record("curve")).converged and found, "it says so")
    assert record.status == "running"
    assert record.until == ""
    page = daemon.muster("show", "curve").stdout
    assert "running.converged: loss 0.5448: each of the last 5 epochs" in page
    assert "ConvergenceSeen" in page
    open_gate(daemon, 30)
    assert job.wait(60).status == "succeeded"
    assert daemon.record("curve").step == 2 * 32


@pytest.mark.slow
def test_losses_that_lie_mislead_for_a_while_only(make: Make) -> None:
    daemon = make(devices=1)
    daemon.start()
    lies = [10 * loss if 4 <= at < 8 else loss for at, loss in enumerate(CURVE)]
    whole = truth(lies)
    gate = 3 * whole // 4
    job = submit(daemon, lies, "--gates", str(gate), until=UNTIL)
    late = at_gate(daemon, gate)
    open_gate(daemon, gate)
    assert job.wait(60).status == "succeeded"
    assert daemon.record("curve").step == 2 * whole
    assert late.epochs is not None
    assert abs(late.epochs[0] - whole) <= 0.25 * whole


def at_epoch(daemon: Daemon, epoch: int) -> bool:
    return daemon.record("curve").epoch == epoch


def ends_by(daemon: Daemon, ending: str) -> bool:
    return daemon.record("curve").until == ending


@pytest.mark.slow
def test_a_running_training_is_given_an_ending_and_relieved_of_it(make: Make) -> None:
    """Each change is made at a gate, and heard of by the next one."""
    daemon = make(devices=2)
    daemon.start()
    gates = {4: "loss < 0.1", 8: "", 10: f"loss < {(CURVE[11] + CURVE[12]) / 2:g}"}
    words = ("--epochs", "14", "--gates", *map(str, gates), "12")
    job = submit(daemon, CURVE, *words, devices="2")
    for gate, ending in gates.items():
        until(partial(at_epoch, daemon, gate - 1), f"epoch {gate}")
        said = daemon.muster("until", "curve", ending or "none").stdout
        assert said == f"job 1 (curve): ends by {ending or 'its own epochs or steps'}\n"
        open_gate(daemon, gate)
        until(partial(ends_by, daemon, ending), "its workers have heard")
    refused = daemon.muster("until", "curve", "soon").stderr
    assert "'soon' is not an ending; write loss < 0.1, converged 0.5%" in refused
    open_gate(daemon, 12)
    assert job.wait(60).status == "succeeded"
    assert daemon.record("curve").step == 2 * 13
    assert "ends by loss < 0.1, set by" in daemon.muster("show", "curve").stdout
