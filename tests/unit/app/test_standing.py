"""What watches a daemon while it runs."""

import asyncio
from pathlib import Path

from structlog.testing import capture_logs

from muster.app.options import UpOptions
from muster.app.standing import _watch
from tests.contract.fake_executor import FakeExecutor, Machine
from tests.unit.daemon.running_daemons import LONG, running_daemon, until


class FullDisk(FakeExecutor):
    """Cannot remove what is too old."""

    asked = False

    def prune(self, older_than: float) -> int:
        self.asked = True
        raise OSError("no space for that")


def test_a_clean_up_that_fails_is_logged_and_the_daemon_watched_all_the_same(tmp_path: Path) -> None:
    executor = FullDisk(Machine())

    async def scene() -> None:
        async with running_daemon(tmp_path, executor=executor) as running:
            stop, daemon = asyncio.Event(), running.daemon
            options = UpOptions(data=tmp_path)
            watch = asyncio.create_task(_watch(options, running, daemon.store, executor, stop))
            async with asyncio.timeout(LONG):
                await until(running, lambda: executor.asked)
                daemon.close()
                await stop.wait()
                await watch

    with capture_logs() as logged:
        asyncio.run(scene())
    (failed,) = [each for each in logged if each["log_level"] == "error"]
    assert "too old" in failed["event"]
    assert failed["exc_info"]
