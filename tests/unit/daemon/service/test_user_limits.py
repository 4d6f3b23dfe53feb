"""What one user may have and ask at once, and what it leaves to others."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    ForbiddenError,
    JobQuery,
    LimitedError,
    RefusedError,
)
from muster.daemon.service.submitting import submit_service
from muster.daemon.service.submitting.user_limits import EVERYBODY, Limiter, UserLimits
from muster.model.job import Job, Program
from muster.wire.api.records import Forecast
from tests.builders import job
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, until


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def with_environment(name: str, size: int, user: str = "ann") -> Job:
    return replace(program(name, user=user), program=Program(environ=(("X", "y" * size),)))


def test_a_user_has_no_more_live_jobs_than_allowed_and_others_have_theirs(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.create_token(ADMIN, "t", "ann", "user")
        await service.set_limits(ADMIN, "ann", {"jobs": 2})
        for name in ("a", "b"):
            await service.submit(ANN, program(name))
        with pytest.raises(ConflictError, match="ann has 2 live jobs, the most allowed"):
            await service.submit(ANN, program("c"))
        await service.submit(BOB, program("c", user="bob"))
        await service.submit(ADMIN, program("forced"))  # administrators have no limits
        await service.stop(ANN, "a")
        await service.stop(ADMIN, "ann/forced")
        await until(made, lambda: len(made.daemon.view.jobs) == 2)
        await service.submit(ANN, program("c"))

    play(tmp_path, scenario)

    async def restarted(made: RunningDaemon) -> None:
        with pytest.raises(ConflictError, match="2 live jobs"):
            await made.service.submit(ANN, program("d"))
        assert (await made.service.limits(ANN))[0].live == 2
        await made.service.set_limits(ADMIN, "ann", None)
        await made.service.submit(ANN, program("d"))

    play(tmp_path, restarted)


def test_concurrent_submissions_do_not_pass_the_limit(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.set_limits(ADMIN, EVERYBODY, {"jobs": 3})
        asked = (made.service.submit(ANN, program(f"j{i}")) for i in range(10))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(not isinstance(each, Exception) for each in answers) == 3
        assert len(made.daemon.view.jobs) == 3

    play(tmp_path, scenario)


def test_what_a_users_jobs_carry_is_limited(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        with pytest.raises(RefusedError, match="its environment has 300,003 bytes, at most 256,000"):
            await service.submit(ADMIN, with_environment("a", 300_000))
        with pytest.raises(RefusedError, match="its command has"):
            await service.submit(ANN, program("a", "x" * 130_000))
        await service.set_limits(ADMIN, EVERYBODY, {"size": 150_000})
        await service.submit(ANN, with_environment("a", 100_000))
        with pytest.raises(ConflictError, match=r"would have 200,0\d\d bytes, at most 150,000"):
            await service.submit(ANN, with_environment("b", 100_000))
        await service.submit(BOB, with_environment("b", 100_000, "bob"))

    play(tmp_path, scenario)


def test_submissions_per_minute_are_limited_and_the_wait_is_told() -> None:
    limiter = Limiter(None, {})
    limiter.set(EVERYBODY, UserLimits(submissions=2))
    for _ in range(2):
        limiter.refuse_submission(job("a", user="ann"), 0.0)
    with pytest.raises(LimitedError, match="ann may submit 2 jobs per minute") as refused:
        limiter.refuse_submission(job("a", user="ann"), 0.0)
    assert refused.value.wait == 30.0
    limiter.refuse_submission(job("a", user="bob"), 0.0)
    limiter.refuse_submission(job("a", user="ann"), 30.0)


def test_limits_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        with pytest.raises(RefusedError, match=r"jobs: 0 would allow nothing; .* revoke"):
            await service.set_limits(ADMIN, EVERYBODY, {"jobs": 0})
        with pytest.raises(RefusedError, match="no user 'nobody-here'"):
            await service.set_limits(ADMIN, "nobody-here", {"jobs": 5})
        with pytest.raises(ForbiddenError):
            await service.set_limits(ANN, "ann", {"jobs": 10**6})
        (own,) = await service.limits(ANN)
        assert (own.user, own.jobs) == ("ann", UserLimits().jobs)

    play(tmp_path, scenario)


def test_forecasts_of_many_do_not_hold_up_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One forecast for each user, two in all, and none of the threads that read the store."""
    go_on, running = Event(), 0

    def slow(*_: object) -> Forecast:
        nonlocal running
        running += 1
        assert go_on.wait(20)
        return Forecast(True, "", "", None, None, "")

    async def scenario(made: RunningDaemon) -> None:
        monkeypatch.setattr(submit_service, "forecast", slow)
        callers = [ANN, ANN, BOB, BOB, *(Caller(f"u{i}") for i in range(8))]
        asked = [asyncio.create_task(made.service.forecast(each, program("f"))) for each in callers]
        await until(made, lambda: running == 2)
        async with asyncio.timeout(10):
            for _ in range(20):
                await made.service.jobs(ANN, JobQuery())
        go_on.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        refused = [each for each in answers if isinstance(each, LimitedError)]
        assert len(refused) == 10
        assert all(each.wait > 0 for each in refused)
        assert (await made.service.forecast(ANN, program("f"))).starts_now

    play(tmp_path, scenario)
