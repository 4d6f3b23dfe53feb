"""Lists with the active jobs first: live ones as the daemon knows them, ended ones from the store."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.protocol import Caller, JobQuery
from muster.store.store import Store
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, state_of, until

CYD = Caller("cyd")
ACTIVE = JobQuery(active_first=True)


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


async def some_of_each(made: RunningDaemon) -> None:
    """Jobs of two users in two pools: one has ended, two run, three wait."""
    service = made.service
    await service.submit(ANN, program("done", "exit", "0"))
    await until(made, lambda: not made.daemon.view.jobs)
    await service.submit(ANN, program("runs", workers=2))
    await service.submit(BOB, program("theirs", workers=2, user="bob", pool="other"))
    await until(made, lambda: state_of(made, "runs").phase == "running")
    await until(made, lambda: state_of(made, "theirs").phase == "running")
    await service.submit(ANN, program("w1", workers=4))
    await service.submit(ANN, program("w2", workers=4, pool="other"))
    await service.submit(BOB, program("w3", workers=4, user="bob"))


async def names(made: RunningDaemon, caller: Caller, query: JobQuery = ACTIVE) -> list[str]:
    """All pages of a list."""
    found: list[str] = []
    while True:
        page = await made.service.jobs(caller, query)
        found += [record.name for record in page.jobs]
        if page.next is None:
            return found
        query = replace(query, cursor=page.next)


def test_a_list_shows_and_counts_what_its_reader_may_see(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await some_of_each(made)
        assert await names(made, ADMIN) == ["theirs", "runs", "w3", "w2", "w1", "done"]
        assert await names(made, ANN) == ["runs", "w2", "w1", "done"]
        assert await names(made, CYD) == []
        assert (await made.service.jobs(CYD, ACTIVE)).counts == {}
        assert (await made.service.jobs(BOB, ACTIVE)).counts == {"running": 1, "waiting": 1}
        await made.service.set_pool(ADMIN, "other", None, {}, shared=True)
        assert await names(made, ANN) == ["theirs", "runs", "w2", "w1", "done"]
        assert (await made.service.jobs(CYD, ACTIVE)).counts == {"running": 1, "waiting": 1}

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    "query",
    [
        ACTIVE,
        replace(ACTIVE, limit=1),
        replace(ACTIVE, statuses=("waiting", "succeeded"), limit=2),
        replace(ACTIVE, user="ann", limit=2),
        replace(ACTIVE, pool="other"),
    ],
)
def test_the_daemon_lists_the_same_jobs_as_the_store(tmp_path: Path, query: JobQuery) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await some_of_each(made)
        of_store = replace(query, name="*")  # which it looks for there
        for caller in (ADMIN, ANN, BOB):
            assert await names(made, caller, query) == await names(made, caller, of_store)
            here, there = [await made.service.jobs(caller, each) for each in (query, of_store)]
            assert (here.next, here.counts) == (there.next, there.counts)

    play(tmp_path, scenario)


def test_live_jobs_are_listed_and_counted_without_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await some_of_each(made)
        first = replace(ACTIVE, limit=2)
        await made.service.jobs(ANN, first)
        monkeypatch.setattr(Store, "grouped", lambda *_, **__: pytest.fail("the store was asked"))
        page = await made.service.jobs(ANN, first)
        assert [record.name for record in page.jobs] == ["runs", "w2"]
        assert page.counts == {"running": 1, "waiting": 2, "succeeded": 1}

    play(tmp_path, scenario)


def test_counts_follow_jobs_that_end_and_those_that_are_removed(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await some_of_each(made)

        async def counts() -> dict[str, int]:
            return dict((await made.service.jobs(ANN, replace(ACTIVE, limit=1))).counts)

        assert await counts() == {"running": 1, "waiting": 2, "succeeded": 1}
        await made.service.stop(ANN, "w1")
        assert await counts() == {"running": 1, "waiting": 1, "succeeded": 1, "cancelled": 1}
        made.daemon.store.drop_jobs(made.service.now() + 1.0)
        assert await counts() == {"running": 1, "waiting": 1}

    play(tmp_path, scenario)


def test_a_daemon_that_starts_again_lists_what_it_had(tmp_path: Path) -> None:
    async def waiting(made: RunningDaemon) -> None:
        for name in ("big", "other"):
            await made.service.submit(ANN, program(name, workers=4))
        await until(made, lambda: state_of(made, "big").phase == "running")
        await made.service.stop(ANN, "big")
        await until(made, lambda: len(made.daemon.view.jobs) == 1)

    async def again(made: RunningDaemon) -> None:
        assert await names(made, ANN) == ["other", "big"]
        assert sum((await made.service.jobs(ANN, ACTIVE)).counts.values()) == 2

    play(tmp_path, waiting)
    play(tmp_path, again)
