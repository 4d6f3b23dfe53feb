"""The audit log: who did what, from where, and what was refused."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.governing.audit import Refusals
from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.protocol import ForbiddenError, NotFoundError, RefusedError, Shape
from muster.wire.api.records import ActRecord
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, until
from tests.unit.daemon.service.test_sweeps import a_sweep


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await scenario(made)

    asyncio.run(played())


def test_a_sweep_is_logged_by_its_name_and_not_with_its_environment(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(3))
        (act,) = await made.service.acts(ADMIN)
        assert (act.act, act.target) == ("sweep", "ann/search, 3 members")

    play(tmp_path, scenario)


def test_what_is_done_is_logged_with_who_and_where(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service, here = made.service, replace(ANN, address="10.0.0.7")
        await service.submit(here, program("train", workers=2))
        await service.resize(here, "train", Shape(1, 2))
        await service.stop(ADMIN, "ann/train")
        node = (await service.nodes(ADMIN))[0].name
        await service.drain(ADMIN, node)
        await service.set_pool(ADMIN, "other", None, {}, shared=True, rules=PoolRules(max_priority=2))
        await service.set_policy(ADMIN, "srtf")
        await service.create_token(ADMIN, "laptop", "bob", "user")
        await service.revoke_token(BOB, "laptop")
        await service.set_limits(ADMIN, "*", {"jobs": 50})
        acts = await service.acts(ADMIN)
        assert [(each.user, each.act, each.target) for each in acts] == [
            ("ann", "submit", "1 (ann/train)"),
            ("ann", "resize", "1 (ann/train)"),
            ("root", "stop", "1 (ann/train)"),
            ("root", "drain", node),
            ("root", "set pool", "other"),
            ("root", "set policy", "srtf"),
            ("root", "create token", "laptop"),
            ("bob", "revoke token", "laptop"),
            ("root", "set limits", "*"),
        ]
        assert {each.outcome for each in acts} == {"done"}
        assert acts[0].address == "10.0.0.7"
        assert acts[1].detail == "least 1, most 2"
        assert acts[4].detail == "shared True, max priority 2"
        assert acts[6].detail == "user bob, role user"
        assert [each.act for each in await service.acts(ADMIN, "bob")] == ["revoke token"]
        assert await service.acts(ADMIN, since=acts[-1].at + 1.0) == []
        assert [each.act for each in await service.acts(ADMIN, limit=1)] == ["set limits"]

    play(tmp_path, scenario)


def test_what_is_refused_is_logged_with_the_reason(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        service = made.service
        await service.submit(ANN, program("train"))
        with pytest.raises(NotFoundError):
            await service.stop(BOB, "1")
        with pytest.raises(ForbiddenError):
            await service.drain(BOB, "n0")
        with pytest.raises(RefusedError):
            await service.submit(BOB, program("7", user="bob"))
        await service.failed_login("10.0.0.9", "the token is not valid")
        found = [each for each in await service.acts(ADMIN) if each.outcome == "refused"]
        assert [(each.user, each.act, each.target) for each in found] == [
            ("bob", "stop", "1"),
            ("bob", "drain", "n0"),
            ("bob", "submit", "bob/7"),
            ("", "log in", ""),
        ]
        assert "needs a letter" in found[2].detail
        assert (found[3].address, found[3].detail) == ("10.0.0.9", "the token is not valid")
        with pytest.raises(ForbiddenError):
            await service.acts(ANN)

    play(tmp_path, scenario)


def test_an_act_and_its_facts_are_written_together_or_not_at_all(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        written = []
        write = made.daemon.store.write

        def watched(batch):  # type: ignore[no-untyped-def]
            if batch.acts:
                written.append((tuple(type(fact).__name__ for fact in batch.facts), batch.acts[0].act))
            return write(batch)

        made.daemon.store.write = watched  # type: ignore[method-assign]
        await made.service.submit(ANN, program("a", "exit", "0"))
        assert written == [(("Submitted",), "submit")]
        await until(made, lambda: not made.daemon.view.jobs)

    play(tmp_path, scenario)


def test_a_loop_of_refusals_does_not_fill_the_log() -> None:
    refusals, act = Refusals(), ActRecord(0.0, "bob", "drain", "n0", "refused", "no")
    assert refusals.to_log(act) == act
    for moment in (0.1, 0.5, 0.9):
        assert refusals.to_log(replace(act, at=moment)) is None
    assert refusals.to_log(replace(act, user="ann", at=0.5)) is not None
    later = refusals.to_log(replace(act, at=1.5))
    assert later is not None
    assert later.detail == "no (and 3 more)"
