"""What `resume_from` of a submission means: own jobs by number or name, `last`, paths."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.loop.entry import Entry
from muster.daemon.service.protocol import RefusedError
from muster.model.event import Checkpointed, Submitted
from muster.model.job import Job, Program
from muster.model.view import Phase
from tests.unit.daemon.running_daemons import ANN, BOB, program, running_daemon, until


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def resuming(name: str, source: str, user: str = "ann") -> Job:
    return replace(program(name, "exit", "0", user=user), program=Program(resume_from=source))


async def ended(made: RunningDaemon, name: str, *, saved: str | None) -> int:
    """A job of ann's that is over, perhaps with a checkpoint."""
    number = (await made.service.submit(ANN, program(name, "exit", "0"))).number
    await until(made, lambda: number not in made.daemon.view.jobs)
    if saved is not None:
        folder = made.service._folder_of(Job(name, user="ann", number=number)) / "checkpoint" / saved
        folder.mkdir(parents=True)
        (folder / "step-000000000008.pt").write_bytes(b"")
    return number


async def source_of(made: RunningDaemon, job: Job) -> str:
    """What a job that is submitted really resumes from."""
    number = (await made.service.submit(ANN, job)).number
    facts = [each.fact for each in made.daemon.store.changes(0, number=number)]
    await until(made, lambda: number not in made.daemon.view.jobs)
    return next(fact.job.program.resume_from for fact in facts if isinstance(fact, Submitted))


def test_an_own_job_by_number_name_or_last_is_its_folder(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        first = await ended(made, "train", saved="x")
        folder = str(tmp_path / "jobs" / f"{first}-train" / "checkpoint")
        await ended(made, "train", saved=None)
        assert await source_of(made, resuming("other", str(first))) == folder
        assert await source_of(made, resuming("train", "last")) == folder
        second = await ended(made, "train", saved="")
        newer = str(tmp_path / "jobs" / f"{second}-train" / "checkpoint")
        assert await source_of(made, resuming("another", "train")) == newer
        assert await source_of(made, resuming("path", "/some/where")) == "/some/where"

    play(tmp_path, scenario)


def test_an_own_job_whose_checkpoints_are_elsewhere_is_found_there(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        url, path = "s3://bucket/train", str(tmp_path / "elsewhere")
        Path(path).mkdir()
        (Path(path) / "step-000000000008.pt").write_bytes(b"")
        for name, place in (("remote", url), ("shared", path)):
            job = replace(program(name, "live"), program=Program(checkpoint=place))
            number = (await made.service.submit(ANN, job)).number
            await until(made, lambda n=number: made.daemon.view.jobs[n].phase is Phase.RUNNING)  # type: ignore[misc]
            if place == url:
                with pytest.raises(RefusedError, match="has no checkpoints"):
                    await made.service.submit(ANN, resuming("early", name))
                run = made.daemon.view.jobs[number].generation
                await made.daemon.put(Entry([Checkpointed(number, run, 1.0)]))
            assert await source_of(made, resuming(f"more-{name}", name)) == place

    play(tmp_path, scenario)


def test_what_cannot_be_resumed_from_is_said_in_a_line(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        empty = await ended(made, "empty", saved=None)
        full = await ended(made, "full", saved="")
        folder = tmp_path / "jobs" / f"{full}-full" / "checkpoint"
        for caller, job, words in (
            (ANN, resuming("a", str(empty)), f"job {empty} (empty) has no checkpoints"),
            (ANN, resuming("a", "nothing"), "ann has no job 'nothing'; see muster ps -a"),
            (ANN, resuming("a", "99"), "ann has no job '99'"),
            (ANN, resuming("a", "last"), "no earlier job of ann named 'a' has checkpoints"),
            (BOB, resuming("b", str(full), "bob"), f"bob has no job '{full}'"),
            (BOB, resuming("b", "full", "bob"), "bob has no job 'full'"),
            (BOB, resuming("b", str(folder), "bob"), "belongs to another user's job"),
            (BOB, resuming("b", f"{folder}/../checkpoint", "bob"), "belongs to another user's job"),
        ):
            for ask in (made.service.submit, made.service.forecast):
                with pytest.raises(RefusedError) as refused:
                    await ask(caller, job)
                assert words in str(refused.value)
                assert "\n" not in str(refused.value)

    play(tmp_path, scenario)
