"""What the scheduler decides on, as the service hands it out."""

import asyncio
from pathlib import Path

import pytest

from muster.daemon.service.protocol import ForbiddenError
from muster.files.snapshot import load_snapshot
from tests.unit.daemon.running_daemons import ADMIN, ANN, program, running_daemon, until


def test_a_snapshot_has_the_live_jobs_and_is_decided_on_again(tmp_path: Path) -> None:
    async def scene() -> bytes:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("a", workers=4))
            await until(made, lambda: made.daemon.cycles > 0)
            await made.service.submit(ANN, program("b", workers=2))
            return await made.service.snapshot(ADMIN)

    path = tmp_path / "snapshot.json"
    path.write_bytes(asyncio.run(scene()))
    snapshot = load_snapshot(path)
    assert [state.job.name for state in snapshot.view.jobs.values()] == ["a", "b"]
    assert snapshot.view.outlooks.keys() == snapshot.view.jobs.keys()
    (decision,) = snapshot.decide().decisions
    assert decision.kind == "wait"


def test_only_administrators_get_one(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running_daemon(tmp_path) as made:
            with pytest.raises(ForbiddenError):
                await made.service.snapshot(ANN)

    asyncio.run(scene())
