"""What callers are told when a request cannot be carried out."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from muster.daemon.assembly import House
from muster.daemon.loop.entry import Entry
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    ForbiddenError,
    RefusedError,
    UnavailableError,
)
from muster.daemon.service.requests import Requests, admins_only
from muster.model.event import NodeDraining, Submitted
from muster.store.errors import StoreError
from tests.unit.daemon.houses import house, program


def play(tmp_path: Path, scenario: Callable[[House, Requests], Awaitable[None]]) -> None:
    async def played() -> None:
        async with house(tmp_path) as made:
            await scenario(made, Requests(made.daemon))

    asyncio.run(played())


def full(*_: object) -> tuple[int, int]:
    raise StoreError("no space left on device")


def test_facts_that_conflict_with_the_state(tmp_path: Path) -> None:
    async def scenario(made: House, requests: Requests) -> None:
        with pytest.raises(ConflictError, match="n99"):
            await requests._put(Entry([NodeDraining("n99", 0.0)]))

    play(tmp_path, scenario)


def test_facts_that_can_never_be_written(tmp_path: Path) -> None:
    async def scenario(made: House, requests: Requests) -> None:
        endless = program("a", duration=float("inf"), number=1)
        with pytest.raises(RefusedError):
            await requests._put(Entry([Submitted(endless, 0.0)]))

    play(tmp_path, scenario)


def test_a_store_in_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(made: House, requests: Requests) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(made.daemon.store, "write", full)
            patch.setattr(made.daemon.store, "set_setting", full)
            for _ in range(2):  # the first finds out, the second is not even tried
                with pytest.raises(UnavailableError, match="no space left"):
                    await requests._put(Entry([Submitted(program("a", number=1), 0.0)]))
            with pytest.raises(UnavailableError, match="no space left"):
                await requests._read(full)
        assert not made.daemon.view.jobs

    play(tmp_path, scenario)


def test_shared_pools_are_remembered_across_restarts(tmp_path: Path) -> None:
    async def scenario(made: House, requests: Requests) -> None:
        assert requests._shared == set()
        made.daemon.store.set_setting("shared pools", "lab\nvision")
        assert Requests(made.daemon)._shared == {"lab", "vision"}

    play(tmp_path, scenario)


def test_only_administrators_pass() -> None:
    admins_only(Caller("root", admin=True))
    with pytest.raises(ForbiddenError, match="admin"):
        admins_only(Caller("ann"))
