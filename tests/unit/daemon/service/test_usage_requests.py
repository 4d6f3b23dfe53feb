"""What jobs held is told by what they have in common, to those who may see them."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.protocol import RefusedError
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, state_of, until


async def _run(made: RunningDaemon, *jobs: tuple[str, str]) -> None:
    """Run jobs of users to their end."""
    for name, user in jobs:
        await made.service.submit(ANN if user == "ann" else BOB, program(name, "exit", "0", user=user))
    await until(made, lambda: not made.daemon.view.jobs)


def test_use_is_told_by_user_and_type_and_only_to_those_who_may_see_it(tmp_path: Path) -> None:
    async def told() -> None:
        async with running_daemon(tmp_path) as made:
            await _run(made, ("a", "ann"), ("b", "bob"), ("c", "bob"))
            every = await made.service.usage(ADMIN, 0.0, by=("user", "type"))
            found = {each.group["user"]: each for each in every.groups}
            assert (found["ann"].jobs, found["bob"].jobs) == (1, 2)
            assert found["ann"].group["type"] == "cpu"
            assert every.total.device_hours == pytest.approx(
                sum(each.device_hours for each in every.groups), abs=1e-5
            )
            mine = await made.service.usage(ANN, 0.0)
            assert [each.group["user"] for each in mine.groups] == ["ann"]
            with pytest.raises(RefusedError, match="'colour' is not a group"):
                await made.service.usage(ADMIN, 0.0, by=("colour",))

    asyncio.run(told())


def test_a_pool_without_budget_starts_nothing_until_it_gets_more(tmp_path: Path) -> None:
    async def barred() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await _run(made, ("a", "ann"))
            rules = PoolRules(budget=1e-12)
            await made.service.set_pool(ADMIN, "default", None, {}, None, rules)
            record = await made.service.submit(ANN, program("b"))
            told = made.daemon.summaries[record.number]
            await until(made, lambda: made.daemon.summaries[record.number].code == "waiting.budget")
            told = made.daemon.summaries[record.number]
            assert told.text.startswith("pool default has used ")
            assert made.foresight is not None
            await made.foresight._refresh()
            said = await made.service.forecast(ANN, program("c", duration=60.0))
            assert said.reason == told.text
            assert (said.start, said.finish, said.finish_low, said.basis) == (None, None, None, "")
            (pool, _) = await made.service.pools(ADMIN)
            assert pool.budget_used > 0
            await made.service.set_pool(ADMIN, "default", None, {}, None, PoolRules(lifted=("budget",)))
            await until(made, lambda: state_of(made, "b").placement is not None)

    asyncio.run(barred())


def test_a_users_raised_budget_lets_a_job_start_at_once(tmp_path: Path) -> None:
    async def barred() -> None:
        async with running_daemon(tmp_path) as made:
            made.daemon.pace = replace(made.daemon.pace, interval=3600.0)
            await _run(made, ("a", "ann"))
            await made.service.set_limits(ADMIN, "*", {"device_hours": 1e-12})  # type: ignore[dict-item]
            record = await made.service.submit(ANN, program("b"))
            await until(made, lambda: made.daemon.summaries[record.number].code == "waiting.budget")
            await made.service.set_limits(ADMIN, "*", {"device_hours": 0})
            await until(made, lambda: state_of(made, "b").placement is not None)

    asyncio.run(barred())


def test_the_next_daemon_knows_what_was_spent(tmp_path: Path) -> None:
    async def twice() -> None:
        async with running_daemon(tmp_path) as made:
            await _run(made, ("a", "ann"))
            spent = made.daemon.accounts.budgets.used_by_user("ann")
        async with running_daemon(tmp_path) as made:
            assert made.daemon.accounts.budgets.used_by_user("ann") == pytest.approx(spent)

    asyncio.run(twice())
