"""A daemon that fails by a fault of its own."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from muster.daemon.foresight import foresight
from muster.daemon.loop import loop
from muster.ports import Report
from tests.contract.fake_executor import FakeExecutor, Machine
from tests.unit.daemon.running_daemons import ANN, LONG, program, running_daemon


class ClosedExecutor(FakeExecutor):
    """Notes that it was closed."""

    closed = False

    def close(self) -> None:
        self.closed = True


class BrokenExecutor(ClosedExecutor):
    """Fails where it is asked what came true."""

    def collect(self) -> Sequence[Report]:
        raise KeyError("a fault of ours")


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


def test_forecasts_that_fail_log_where_and_do_not_keep_the_daemon_from_closing(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running_daemon(tmp_path) as running:
            assert running.foresight is not None
            failing = asyncio.Event()

            def fails(forecasts: object) -> None:
                failing.set()
                raise KeyError("a fault of ours")

            running.foresight.told.append(fails)
            await running.service.submit(ANN, program("train", "live"))
            async with asyncio.timeout(LONG):
                await failing.wait()

    with capture_logs() as logged:
        asyncio.run(scene())
    (failed,) = [each for each in logged if each["log_level"] == "error"]
    assert "forecasts failed" in failed["event"]
    assert failed["exc_info"]


def test_forecasts_go_on_after_one_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foresight, "AGAIN", 0.0)

    async def scene() -> None:
        async with running_daemon(tmp_path) as running:
            assert running.foresight is not None
            faults, told = [KeyError("a fault of ours")], asyncio.Event()

            def fails_once(forecasts: object) -> None:
                if faults:
                    raise faults.pop()
                told.set()

            running.foresight.told.append(fails_once)
            await running.service.submit(ANN, program("train", "live"))
            async with asyncio.timeout(LONG):
                await told.wait()

    asyncio.run(scene())


def test_a_snapshot_that_fails_logs_where_and_does_not_keep_the_daemon_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = ClosedExecutor(Machine())

    async def scene() -> None:
        async with running_daemon(tmp_path, executor=executor) as running:
            failing = asyncio.Event()

            async def fails(state: object) -> list[bytes]:
                failing.set()
                raise KeyError("a fault of ours")

            monkeypatch.setattr(loop, "encoded", fails)
            running.daemon.pace = replace(running.daemon.pace, snapshot=1)
            await running.service.submit(ANN, program("train", "live"))
            async with asyncio.timeout(LONG):
                await failing.wait()

    with capture_logs() as logged:
        asyncio.run(scene())
    failed = next(each for each in logged if each["log_level"] == "error")
    assert failed["event"] == "snapshot failed"
    assert failed["exc_info"]
    assert executor.closed
