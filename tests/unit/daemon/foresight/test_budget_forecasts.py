"""Forecasts of a daemon whose budgets are used up."""

import asyncio
from pathlib import Path

from muster.daemon.account.budgets import next_month
from muster.store.batch import Use
from tests.unit.daemon.running_daemons import ADMIN, ANN, program, running_daemon, until

HOUR = 3600


def test_a_job_without_a_budget_is_not_said_to_start_before_the_month_is_over(tmp_path: Path) -> None:
    async def lives() -> None:
        async with running_daemon(tmp_path) as made:
            daemon, now = made.daemon, made.daemon.clock.now()
            daemon.accounts.budgets.of_user = {"ann": 1.0}.get
            daemon.accounts.budgets.of_users = lambda: True
            spent = Use(int(now // HOUR), 9, "cpu", "ann", "default", "", 2.0 * HOUR)
            daemon.accounts.budgets.spend([spent])
            record = await made.service.submit(ANN, program("late", "live", duration=600.0))
            await until(made, lambda: daemon.summaries[record.number].code == "waiting.budget")
            assert made.foresight is not None
            await made.foresight._refresh()
            told = (await made.service.job(ADMIN, str(record.number))).job
            assert told.predicted_start is not None
            assert told.predicted_start >= next_month(now)

    asyncio.run(lives())
