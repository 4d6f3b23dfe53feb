"""The last jobs of a queue are remembered, though nobody is left to be forecast."""

import asyncio
from pathlib import Path

from muster.daemon.foresight.past_notes import KIND
from muster.model.view import Phase
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, until


def test_a_job_that_ends_last_is_remembered_as_a_similar_one(tmp_path: Path) -> None:
    async def lives() -> None:
        async with running_daemon(tmp_path) as made:
            daemon, foresight = made.daemon, made.foresight
            assert foresight is not None
            number = (await made.service.submit(ANN, program("train", "live"))).number
            await until(made, lambda: daemon.view.jobs[number].phase is Phase.RUNNING)
            await until(made, lambda: number in foresight.forecasts)
            await made.service.stop(ANN, str(number))
            await until(made, lambda: bool(daemon.store.notes(KIND, 9)))
            assert not foresight.forecasts
            assert not daemon.view.jobs

    asyncio.run(lives())
