"""Jobs that come after others: they wait, start or are skipped; what can never start is refused."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.protocol import ConflictError, FieldRefusedError, JobQuery
from muster.model.job import Dependency, Job, When
from muster.store.store import open_store
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ANN, BOB, program, running_daemon, state_of, until


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def after(job: Job, *parents: str) -> Job:
    """The job after these, as `--after` has them."""
    split = (text.partition(":") for text in parents)
    return replace(job, after=tuple(Dependency(name, When(when or "ok")) for name, _, when in split))


async def status(made: RunningDaemon, which: str) -> str:
    return (await made.service.job(ANN, which)).job.status


async def ended(made: RunningDaemon, which: str, how: str) -> None:
    number = (await made.service.job(ANN, which)).job.number
    await until(made, lambda: number not in made.daemon.view.jobs)
    assert await status(made, which) == how


def test_a_job_waits_for_its_parent_and_lets_others_pass(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("prep"))
        child = await service.submit(ANN, after(program("train", workers=4), "prep"))
        assert (child.status, child.code) == ("waiting", "waiting.after")
        assert child.reason == "starts once job 1 (prep) has succeeded"
        assert child.position is None, "it does not stand in the queue"
        await service.submit(ANN, program("other", workers=3))
        await until(made, lambda: state_of(made, "other").phase == "running")
        assert state_of(made, "train").phase == "waiting"

    play(tmp_path, scenario)


def test_a_parents_success_starts_its_child_and_skips_who_waits_for_its_failure(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        train = after(program("train", "exit", "0"), "prep")
        rescue = after(program("rescue", "exit", "0"), "prep:failed")
        await service.submit_all(ANN, [program("prep", "exit", "0"), train, rescue])
        await ended(made, "train", "succeeded")
        await ended(made, "rescue", "skipped")
        record = (await service.job(ANN, "rescue")).job
        assert (record.code, record.reason) == ("skipped.after", "job 1 (prep) succeeded")

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("when", "how"), [("ok", "skipped"), ("any", "succeeded"), ("failed", "succeeded")]
)
def test_what_becomes_of_the_children_of_a_failed_job(tmp_path: Path, when: str, how: str) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit_all(
            ANN,
            [
                program("prep", "exit", "3"),
                after(program("train", "exit", "0"), f"prep:{when}"),
                after(program("report", "exit", "0"), "train"),
            ],
        )
        await ended(made, "train", how)
        await ended(made, "report", how)
        if how == "skipped":
            assert (await service.job(ANN, "report")).job.reason == "job 2 (train) was skipped"

    play(tmp_path, scenario)


def test_stopping_a_parent_skips_its_children(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("prep"))
        await service.submit(ANN, after(program("train"), "prep"))
        await service.stop(ANN, "prep")
        await ended(made, "train", "skipped")
        assert (await service.job(ANN, "train")).job.reason == "job 1 (prep) was stopped"

    play(tmp_path, scenario)


def test_a_parent_is_pinned_though_its_name_is_used_again(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("prep", "exit", "0"))
        await ended(made, "prep", "succeeded")
        await service.submit(ANN, program("prep"))
        child = await service.submit(ANN, after(program("train"), "1"))
        assert child.after[0].met, "job 1 has succeeded already"
        (waits,) = (await service.submit(ANN, after(program("again"), "prep"))).after
        assert (waits.number, waits.met) == (2, False)

    play(tmp_path, scenario)


def test_a_parent_that_is_not_there_or_ended_otherwise_is_refused(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        with pytest.raises(FieldRefusedError, match="after: you have no job 'prep'"):
            await service.submit(ANN, after(program("train"), "prep"))
        await service.submit(ANN, program("prep", "exit", "3"))
        await ended(made, "prep", "failed")
        with pytest.raises(
            FieldRefusedError, match=r"job 1 \(prep\) failed, so that the job could never"
        ):
            await service.submit(ANN, after(program("train"), "prep"))
        with pytest.raises(FieldRefusedError, match="you have no job"):
            await service.submit(BOB, after(replace(program("mine"), user="bob"), "1"))

    play(tmp_path, scenario)


def test_jobs_of_one_submission_come_all_or_not_at_all(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("train"))
        pair = [program("prep"), after(program("train"), "prep")]
        with pytest.raises(ConflictError, match="a job named 'train' of ann is still active"):
            await service.submit_all(ANN, pair)
        wrong = [program("prep"), after(program("next"), "prep", "nosuch")]
        with pytest.raises(FieldRefusedError, match=r"jobs\.next\.after: you have no job 'nosuch'"):
            await service.submit_all(ANN, wrong)
        page = await service.jobs(ANN, JobQuery())
        assert [job.name for job in page.jobs] == ["train"]

    play(tmp_path, scenario)


def test_a_submission_that_is_repeated_with_its_key_is_made_once(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        pair = [program("prep"), after(program("train"), "prep")]
        first = await made.service.submit_all(ANN, pair, "k")
        again = await made.service.submit_all(ANN, pair, "k")
        assert [job.number for job in again] == [job.number for job in first] == [1, 2]

    play(tmp_path, scenario)


def test_a_daemon_that_starts_again_knows_what_jobs_wait_for(tmp_path: Path) -> None:
    async def played() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("prep"))
            await until(made, lambda: state_of(made, "prep").phase == "running")
            await made.service.submit(ANN, after(program("train", "exit", "0"), "prep:any"))
        store = open_store(str(tmp_path / "muster.db"))
        async with running_daemon(tmp_path, machine, store=store) as made:
            assert (await made.service.job(ANN, "train")).job.code == "waiting.after"
            await made.service.stop(ANN, "prep")
            await ended(made, "train", "succeeded")

    asyncio.run(played())


def test_live_jobs_are_stopped_together_by_a_filter(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        for name, run in (("a", "x"), ("b", "x"), ("c", "y")):
            await service.submit(ANN, replace(program(name), labels=(("run", run),)))
        await service.submit(ANN, replace(after(program("d"), "a"), labels=(("run", "x"),)))
        await until(made, lambda: state_of(made, "c").phase == "running")
        found = await service.stop_all(ANN, JobQuery(labels=(("run", "x"),)))
        assert sorted(job.name for job in found) == ["a", "b", "d"]
        await ended(made, "a", "cancelled")
        await ended(made, "d", "cancelled")
        assert await status(made, "c") == "running"

    play(tmp_path, scenario)


def test_waiting_jobs_have_their_place_in_the_queue_of_their_pool(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("big", workers=4))
        await until(made, lambda: state_of(made, "big").phase == "running")
        await service.submit(ANN, program("second", workers=4))
        await service.submit(ANN, program("first", workers=4, priority=5))
        await service.submit(ANN, replace(program("alone", workers=2), pool="other"))
        await service.submit(ANN, program("held", workers=4))
        await service.hold(ANN, "held")
        page = await service.jobs(ANN, JobQuery(statuses=("waiting",)))
        places = {job.name: job.position for job in page.jobs}
        assert (places["first"], places["second"], places["held"]) == (1, 2, None)

    play(tmp_path, scenario)
