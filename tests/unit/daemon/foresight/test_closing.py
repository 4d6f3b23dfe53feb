"""A daemon that is told to stop just as something has changed."""

import asyncio
from pathlib import Path

import pytest

from tests.unit.daemon.running_daemons import running_daemon

LONG = 20.0
"""s that nothing takes unless it hangs."""


@pytest.mark.parametrize("turns", range(4))
def test_a_change_does_not_swallow_the_stop(tmp_path: Path, turns: int) -> None:
    """What waits with a limit may get its event and its end within the same turn of the event loop."""

    async def lives() -> None:
        async with running_daemon(tmp_path) as made:
            assert made.foresight is not None
            for _ in range(10):  # until it waits for a change
                await asyncio.sleep(0)
            made.foresight._changed.set()
            for _ in range(turns):
                await asyncio.sleep(0)
            closing = asyncio.create_task(made.foresight.close())
            done, _ = await asyncio.wait([closing], timeout=LONG)
            assert done

    asyncio.run(lives())
