"""An elastic training among idle devices, of which earlier ones have given a wrong impression."""

import sys

import pytest

from tests.live.conftest import Make
from tests.live.daemons import Daemon, until
from tests.live.steps import TRAIN

pytest.importorskip("torch")

KIND = {"application": "net"}


def trains(daemon: Daemon, name: str, pace: float, steps: int, **fields: object) -> None:
    """A training whose samples take this many seconds each."""
    command = (sys.executable, str(TRAIN), "--steps", str(steps), "--pace", str(pace))
    daemon.submit(*command, name=name, **KIND, **fields)


@pytest.mark.slow
def test_idle_devices_are_tried_and_kept_if_they_help(make: Make) -> None:
    daemon: Daemon = make(devices=4)
    daemon.start()
    # Two workers were seen to be slower than one: their machine was busy then.
    trains(daemon, "alone", pace=0.006, steps=60, devices=1)
    daemon.await_status("alone", "succeeded")
    trains(daemon, "hindered", pace=0.06, steps=30, devices=2)
    daemon.await_status("hindered", "succeeded")

    trains(daemon, "elastic", pace=0.006, steps=5_000, devices="1..2")
    until(lambda: daemon.record("elastic").workers == 1, "it starts as is believed to be best")
    until(lambda: daemon.record("elastic").workers == 2, "idle devices are tried")
    until(lambda: (daemon.record("elastic").step or 0) > 700, "it has trained on with them")
    record = daemon.record("elastic")
    assert (record.status, record.workers, record.resizes) == ("running", 2, 1)
    (daemon.work("elastic") / "go").touch()
    daemon.await_status("elastic", "succeeded")
