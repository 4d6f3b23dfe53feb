"""A daemon that fails by a fault of its own."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from muster.ports import Report
from tests.contract.fake_executor import FakeExecutor, Machine
from tests.unit.daemon.running_daemons import running_daemon


class BrokenExecutor(FakeExecutor):
    """Fails where it is asked what came true."""

    closed = False

    def collect(self) -> Sequence[Report]:
        raise KeyError("a fault of ours")

    def close(self) -> None:
        self.closed = True


def test_a_daemon_that_fails_logs_where_and_closes_what_it_has_opened(tmp_path: Path) -> None:
    broken = BrokenExecutor(Machine())

    async def scene() -> None:
        async with running_daemon(tmp_path, executor=broken) as running:
            with pytest.raises(KeyError):
                await running.ended()

    with capture_logs() as logged, pytest.raises(KeyError, match="a fault of ours"):
        asyncio.run(scene())
    (failed,) = [each for each in logged if "failed" in each["event"]]
    assert failed["log_level"] == "error"
    assert failed["exc_info"]
    assert broken.closed
