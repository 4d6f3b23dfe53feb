"""Requests about jobs: whose they are, pages, logs, changes, what a resize asks."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.core.state.admit import refuse
from muster.daemon.assembly import House
from muster.daemon.service import job_service
from muster.daemon.service.protocol import (
    ConflictError,
    JobQuery,
    NotFoundError,
    RefusedError,
    Shape,
)
from tests.unit.daemon.houses import ADMIN, ANN, BOB, house, program, state_of, until


def play(tmp_path: Path, scenario: Callable[[House], Awaitable[None]]) -> None:
    async def played() -> None:
        async with house(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def test_jobs_of_others_are_seen_in_shared_pools_only(tmp_path: Path) -> None:
    async def scenario(made: House) -> None:
        service = made.front
        await service.submit(ANN, program("a", pool="other"))
        for asked in (service.job(BOB, "a"), service.stop(BOB, "a"), service.changes(BOB, 0, "a")):
            with pytest.raises(NotFoundError):
                await asked
        assert (await service.jobs(BOB, JobQuery())).jobs == ()
        assert await service.changes(BOB, 0) == []
        await service.set_pool(ADMIN, "other", None, {}, shared=True)
        assert (await service.job(BOB, "a")).job.name == "a"
        assert [each.name for each in (await service.jobs(BOB, JobQuery())).jobs] == ["a"]
        assert "Submitted" in [each.kind for each in await service.changes(BOB, 0)]

    play(tmp_path, scenario)


def test_a_name_means_the_live_job_then_the_newest_a_number_always_one(tmp_path: Path) -> None:
    async def scenario(made: House) -> None:
        service = made.front
        for _ in range(2):
            await service.submit(ANN, program("a", "exit", "0"))
            await until(made, lambda: not made.daemon.view.jobs)
        assert (await service.job(ANN, "a")).job.number == 2
        await service.submit(ANN, program("1"))
        assert (await service.job(ANN, "1")).job.number == 3, "a live job of this name"
        await service.stop(ANN, "1")
        await until(made, lambda: not made.daemon.view.jobs)
        assert (await service.job(ANN, "1")).job.name == "a"

    play(tmp_path, scenario)


def test_pages_follow_each_other_without_gaps(tmp_path: Path) -> None:
    async def scenario(made: House) -> None:
        service = made.front
        for _ in range(5):
            await service.submit(ANN, program(""))
        found, cursor = [], None
        while True:
            page = await service.jobs(ANN, JobQuery(limit=2, cursor=cursor))
            found += [record.number for record in page.jobs]
            cursor = page.next
            if cursor is None:
                break
        assert found == [5, 4, 3, 2, 1]
        with pytest.raises(RefusedError, match="cursor"):
            await service.jobs(ANN, JobQuery(cursor="five"))

    play(tmp_path, scenario)


def test_a_resize_beyond_what_is_free_grows_from_what_the_job_has(tmp_path: Path) -> None:
    async def scenario(made: House) -> None:
        service = made.front
        await service.submit(ANN, program("a", workers=2))
        await service.submit(ANN, program("b", workers=2))
        await until(made, lambda: state_of(made, "b").phase != "waiting")
        record = await service.resize(ANN, "a", Shape(4, 4))
        assert record.asked == "4"
        workers = state_of(made, "a").job.workers
        assert (workers.gang, workers.least, workers.most) == (2, 4, 4), "it need not stop for it"
        with pytest.raises(RefusedError, match=r"3\.\.2"):
            await service.resize(ANN, "a", Shape(3, 2))
        with pytest.raises(RefusedError, match="never run"):
            await service.resize(ANN, "a", Shape(9, 9))

    play(tmp_path, scenario)


def test_a_job_that_is_over_cannot_be_resized_and_stopping_it_is_idempotent(tmp_path: Path) -> None:
    async def scenario(made: House) -> None:
        service = made.front
        await service.submit(ANN, program("a", "exit", "0"))
        await until(made, lambda: not made.daemon.view.jobs)
        with pytest.raises(ConflictError, match="succeeded"):
            await service.resize(ANN, "a", Shape(1, 2))
        assert (await service.stop(ANN, "a")).status == "succeeded"

    play(tmp_path, scenario)


def test_following_a_job_ends_with_it(tmp_path: Path) -> None:
    async def scenario(made: House) -> None:
        await made.front.submit(ANN, program("a", "exit", "0"))
        kinds = [change.kind async for change in made.front.follow(ANN, 0, "a")]
        assert (kinds[0], kinds[-1]) == ("Submitted", "Ended")

    play(tmp_path, scenario)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    async def scenario(made: House) -> None:
        await made.front.submit(ANN, program("a"))
        with pytest.raises(NotFoundError, match="9/worker-9"):
            await made.front.log(ANN, "a", "9/worker-9")

    play(tmp_path, scenario)


def test_admission_is_remembered_until_pools_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(job, *rest):  # type: ignore[no-untyped-def]
        asked.append(job.name)
        return refuse(job, *rest)

    async def scenario(made: House) -> None:
        monkeypatch.setattr(job_service, "refuse", counted)
        for name in "abc":
            await made.front.submit(ANN, program(name))
        assert asked == ["a"]
        await made.front.set_pool(ADMIN, "other", None, {}, shared=True)
        await made.front.submit(ANN, replace(program("d"), user="bob"))
        assert asked == ["a", "d"]

    play(tmp_path, scenario)
