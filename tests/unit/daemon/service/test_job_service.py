"""Requests about jobs: whose they are, pages, logs, changes, what a resize asks."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.core.state.admit import refuse
from muster.daemon.assembly import RunningDaemon
from muster.daemon.loop.entry import Entry
from muster.daemon.service.protocol import (
    ConflictError,
    JobQuery,
    NotFoundError,
    RefusedError,
    Shape,
)
from muster.daemon.service.submitting import submit_service
from muster.model.event import Submitted
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, state_of, until


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def test_jobs_of_others_are_seen_in_shared_pools_only(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("a", pool="other"))
        for which in ("a", "ann/a", "1"):
            for ask in (service.job, service.stop):
                with pytest.raises(NotFoundError):
                    await ask(BOB, which)
            with pytest.raises(NotFoundError):
                await service.changes(BOB, 0, which)
        assert (await service.jobs(BOB, JobQuery())).jobs == ()
        assert await service.changes(BOB, 0) == []
        await service.set_pool(ADMIN, "other", None, {}, shared=True)
        assert (await service.job(BOB, "ann/a")).job.name == "a"
        assert [each.name for each in (await service.jobs(BOB, JobQuery())).jobs] == ["a"]
        assert "Submitted" in [each.kind for each in await service.changes(BOB, 0)]

    play(tmp_path, scenario)


def test_a_name_means_the_callers_live_job_then_their_newest(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        for _ in range(2):
            await service.submit(ANN, program("a", "exit", "0"))
            await until(made, lambda: not made.daemon.view.jobs)
        assert (await service.job(ANN, "a")).job.number == 2
        await service.submit(ANN, program("a"))
        await service.submit(BOB, program("a", "exit", "0", user="bob"))
        await until(made, lambda: list(made.daemon.view.jobs) == [3])
        assert (await service.job(ANN, "a")).job.number == 3

    play(tmp_path, scenario)


def test_users_have_jobs_of_one_name_and_each_means_their_own(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("train"))
        await service.submit(BOB, program("train", user="bob"))
        with pytest.raises(ConflictError, match="'train' of bob is still active"):
            await service.submit(BOB, program("train", user="bob"))
        assert (await service.job(ANN, "train")).job.user == "ann"
        assert (await service.job(BOB, "train")).job.user == "bob"
        assert (await service.job(ADMIN, "bob/train")).job.number == 2
        with pytest.raises(NotFoundError, match=r"several users.*ann/train or bob/train"):
            await service.stop(ADMIN, "train")
        assert (await service.stop(BOB, "train")).number == 2
        await until(made, lambda: list(made.daemon.view.names) == ["ann/train"])

    play(tmp_path, scenario)


def test_digits_are_always_a_number(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        for name in ("2", "007", "1.5"):
            for ask in (service.submit, service.forecast):
                with pytest.raises(RefusedError, match=rf"'{name}'.*needs a letter"):
                    await ask(BOB, program(name, user="bob"))
        # Such as there may be in a store of an earlier version.
        await made.daemon.put(Entry([Submitted(program("7", user="bob", number=1), 1.0)]))
        made.service._number = 1
        for each in range(2, 8):
            await service.submit(ANN, program(f"a{each}"))
        assert (await service.job(ADMIN, "7")).job.name == "a7"
        assert (await service.stop(ADMIN, "7")).name == "a7"
        assert (await service.job(BOB, "bob/7")).job.number == 1

    play(tmp_path, scenario)


def test_a_key_belongs_to_its_caller_and_to_one_job(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        first = await service.submit(ANN, program("a"), "k")
        assert (await service.submit(ANN, program("a"), "k")).number == first.number
        with pytest.raises(ConflictError, match="was used for job 1"):
            await service.submit(ANN, program("b"), "k")
        other = await service.submit(BOB, program("a", user="bob"), "k")
        assert (other.number, other.user) == (2, "bob")
        # An administrator's key for a job of somebody else is not that user's.
        for_bob = await service.submit(ADMIN, program("c", user="bob"), "s")
        own = await service.submit(BOB, program("d", user="bob"), "s")
        assert (for_bob.number, own.number) == (3, 4)

    play(tmp_path, scenario)


def test_a_reused_name_does_not_open_the_events_of_its_earlier_job(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("a", "exit", "0"))
        await until(made, lambda: not made.daemon.view.jobs)
        await service.submit(BOB, program("a", "exit", "0", user="bob"))
        assert {each.number for each in await service.changes(BOB, 0, "a")} == {2}
        assert {each.number for each in await service.changes(BOB, 0)} == {2}
        seen = [each.number async for some in service.follow(BOB, 0, "a") for each in some]
        assert set(seen) == {2}

    play(tmp_path, scenario)


def test_events_of_others_do_not_hide_ones_own(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        for each in range(6):
            await service.submit(ANN, program(f"a{each}"))
        await service.submit(BOB, program("mine", user="bob"))
        (first, *_) = await service.changes(BOB, 0, limit=3)
        assert (first.kind, first.job) == ("Submitted", "mine")
        (last,) = await service.changes(BOB, None, limit=1)
        assert last.job == "mine"
        stream = service.follow(BOB, 0)
        assert [each.job for each in await anext(stream)][:1] == ["mine"]

    play(tmp_path, scenario)


def test_the_active_jobs_come_first_and_all_are_counted(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("done", "exit", "0"))
        await until(made, lambda: not made.daemon.view.jobs)
        await service.submit(ANN, program("runs", workers=4))
        await until(made, lambda: state_of(made, "runs").phase == "running")
        for each in range(5):
            await service.submit(ANN, program(f"w{each}", workers=4))
        await service.submit(BOB, program("theirs", workers=4, user="bob"))
        found: list[str] = []
        cursor: str | None = None
        counts: dict[str, int] = {}
        while True:
            page = await service.jobs(ANN, JobQuery(limit=2, cursor=cursor, active_first=True))
            found += [record.name for record in page.jobs]
            counts = counts or page.counts
            cursor = page.next
            if cursor is None:
                break
        assert found == ["runs", "w4", "w3", "w2", "w1", "w0", "done"]
        assert counts == {"running": 1, "waiting": 5, "succeeded": 1}
        with pytest.raises(RefusedError, match="cursor"):
            await service.jobs(ANN, JobQuery(cursor="9-1", active_first=True))

    play(tmp_path, scenario)


def test_pages_follow_each_other_without_gaps(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
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
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
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
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("a", "exit", "0"))
        await until(made, lambda: not made.daemon.view.jobs)
        with pytest.raises(ConflictError, match="succeeded"):
            await service.resize(ANN, "a", Shape(1, 2))
        assert (await service.stop(ANN, "a")).status == "succeeded"

    play(tmp_path, scenario)


def test_following_a_job_ends_with_it(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit(ANN, program("a", "exit", "0"))
        kinds = [each.kind async for some in made.service.follow(ANN, 0, "a") for each in some]
        assert (kinds[0], kinds[-1]) == ("Submitted", "Ended")

    play(tmp_path, scenario)


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit(ANN, program("a"))
        with pytest.raises(NotFoundError, match="9/worker-9"):
            await made.service.log(ANN, "a", "9/worker-9")

    play(tmp_path, scenario)


def test_admission_is_remembered_until_pools_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(job, *rest):  # type: ignore[no-untyped-def]
        asked.append(job.name)
        return refuse(job, *rest)

    async def scenario(made: RunningDaemon) -> None:
        monkeypatch.setattr(submit_service, "refuse", counted)
        for name in "abc":
            await made.service.submit(ANN, program(name))
        assert asked == ["a"]
        await made.service.set_pool(ADMIN, "other", None, {}, shared=True)
        await made.service.submit(ANN, replace(program("d"), user="bob"))
        assert asked == ["a", "d"]

    play(tmp_path, scenario)
