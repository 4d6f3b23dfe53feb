"""A pool or a user without budget starts nothing more until the next month."""

from dataclasses import replace

from muster.daemon.account.budgets import Budgets, month_of, next_month
from muster.daemon.account.meter import HOUR
from muster.model.pool import Pool, PoolTree
from muster.model.view import JobState, Phase, View
from muster.store.batch import Use
from tests.builders import cluster, job, view

NOVEMBER, DECEMBER = 1793491200.0, 1796083200.0
"""When these months of 2026 began."""


def waiting(user: str = "ann", pool: str = "vision") -> View:
    asked = replace(job("a"), user=user, pool=pool)
    tree = PoolTree({"lab": Pool("lab", budget=10.0), "vision": Pool("vision", "lab")})
    state = JobState(asked, Phase.WAITING, NOVEMBER)
    return replace(view(cluster(1)), pools=tree, jobs={asked.number: state}, names={})


def used(hours: float, at: float = NOVEMBER, user: str = "ann", pool: str = "vision") -> Use:
    return Use(int(at // HOUR), 1, "A100", user, pool, "train", hours * HOUR)


def spent(*uses: Use, now: float = NOVEMBER) -> Budgets:
    budgets = Budgets()
    budgets.restore([], now)
    budgets.spend(uses)
    return budgets


def test_months_begin_at_midnight_utc() -> None:
    assert month_of(NOVEMBER) == month_of(DECEMBER - 1.0) == NOVEMBER
    assert next_month(NOVEMBER) == next_month(DECEMBER - 1.0) == DECEMBER
    assert next_month(DECEMBER) == DECEMBER + 31 * 86_400.0


def test_a_pool_covers_those_below_it() -> None:
    assert not spent(used(9.9)).barred(waiting(), NOVEMBER)
    (why,) = spent(used(10.5)).barred(waiting(), NOVEMBER + 86_400.0).values()
    assert why == (
        "pool lab has used 10.5 of 10 device-hours in November; it may start on 1 December, or when an "
        "administrator raises the budget (muster pool set lab --budget)"
    )


def test_a_month_begins_with_nothing_spent() -> None:
    budgets = spent(used(20.0))
    assert budgets.barred(waiting(), DECEMBER - 1.0)
    assert not budgets.barred(waiting(), DECEMBER)


def test_what_was_held_last_month_does_not_count() -> None:
    assert not spent(used(20.0, NOVEMBER - HOUR)).barred(waiting(), NOVEMBER)


def test_users_have_budgets_of_their_own() -> None:
    budgets = spent(used(3.0, user="bob", pool="vision"))
    budgets.of_user = {"bob": 2.5, "ann": 2.5}.get
    assert not budgets.barred(waiting("ann"), NOVEMBER)
    (why,) = budgets.barred(waiting("bob"), NOVEMBER).values()
    assert why.startswith("bob has used 3 of 2.5 device-hours in November")


def test_jobs_that_run_go_on() -> None:
    there = waiting()
    (number,) = there.jobs
    running = replace(there.jobs[number], phase=Phase.RUNNING)
    assert not spent(used(20.0)).barred(replace(there, jobs={number: running}), NOVEMBER)
