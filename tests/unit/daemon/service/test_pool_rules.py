"""Who may submit to a pool, with what priority, and what happens to rules that make no sense."""

import asyncio
import grp
import os
import pwd
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.governing.pool_rules import groups_of, refuse_stranger
from muster.daemon.service.protocol import Caller, ForbiddenError, RefusedError
from muster.model.pool import Pool, PoolTree
from tests.builders import job
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def test_only_those_whom_a_pool_allows_submit_to_it(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.create_token(ADMIN, "t", "ann", "user")
        changed = await service.set_pool(ADMIN, "other", None, {}, rules=PoolRules(("ann",)))
        assert changed.allow == ("ann",)
        await service.submit(ANN, program("a", pool="other"))
        for ask in (service.submit, service.forecast):
            with pytest.raises(ForbiddenError, match=r"bob may not submit .* 'other' allows ann"):
                await ask(BOB, program("b", pool="other", user="bob"))
        await service.submit(BOB, program("b", user="bob"))
        await service.submit(ADMIN, program("c", pool="other", user="root"))
        await service.set_pool(ADMIN, "other", None, {}, rules=PoolRules(()))
        await service.submit(BOB, program("c", pool="other", user="bob"))

    play(tmp_path, scenario)


def test_a_rule_binds_the_pools_below_and_groups_are_those_of_the_machine() -> None:
    tree = PoolTree(
        {"lab": Pool("lab", allow=("@vision",)), "x": Pool("x", "lab", allow=("ann", "bob"))}
    )
    asked = job("j", pool="x", user="ann")
    refuse_stranger(ANN, asked, tree, lambda _: frozenset({"vision"}))
    with pytest.raises(ForbiddenError, match="pool 'lab' allows @vision"):
        refuse_stranger(ANN, asked, tree, lambda _: frozenset({"speech"}))
    refuse_stranger(Caller("root", admin=True), asked, tree, lambda _: frozenset())
    me = pwd.getpwuid(os.getuid())
    assert grp.getgrgid(me.pw_gid).gr_name in groups_of(me.pw_name)
    assert groups_of("no-such-user") == frozenset()


def test_priorities_above_the_pools_highest_are_for_administrators(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.set_pool(ADMIN, "default", None, {}, rules=PoolRules(max_priority=5))
        await service.submit(ANN, program("a", priority=5))
        with pytest.raises(ForbiddenError, match="6 is above 5, the highest of pool 'default'"):
            await service.submit(ANN, program("b", priority=6))
        await service.submit(ADMIN, program("b", priority=6))
        with pytest.raises(ForbiddenError):
            service.check_priority(ANN, program("a"), 100)
        lifted = PoolRules(lifted=("max_priority",))
        assert (await service.set_pool(ADMIN, "default", None, {}, rules=lifted)).max_priority is None
        service.check_priority(ANN, program("a"), 100)

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (PoolRules(("no-such-user",)), "no user 'no-such-user': neither a token nor an account"),
        (PoolRules(("@no-such-group",)), "no group 'no-such-group' on this machine"),
        (PoolRules(devices_per_user=0), "devices_per_user must be at least 1, not 0"),
    ],
)
def test_rules_that_make_no_sense_are_refused(tmp_path: Path, rules: PoolRules, problem: str) -> None:
    async def scenario(made: RunningDaemon) -> None:
        with pytest.raises(RefusedError, match=problem):
            await made.service.set_pool(ADMIN, "other", None, {}, rules=rules)

    play(tmp_path, scenario)


def test_rules_outlive_the_daemon_and_other_changes_of_the_pool(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        rules = PoolRules(("@root", "root"), 3, 2)
        await made.service.set_pool(ADMIN, "other", None, {}, rules=rules)
        await made.service.set_pool(ADMIN, "other", None, {}, shared=True)

    async def restarted(made: RunningDaemon) -> None:
        pool = next(each for each in await made.service.pools(ANN) if each.name == "other")
        assert (pool.allow, pool.max_priority, pool.devices_per_user) == (("@root", "root"), 3, 2)

    play(tmp_path, scenario)
    play(tmp_path, restarted)
