"""Packs on their way to a node, and the orders that wait for them."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from muster.agent.tasks.own_folder import moved
from muster.agent.tasks.packs import PackCache
from muster.executors.fleet import packs as source
from muster.executors.fleet.packs import PackSource
from muster.executors.packs import PackFolder
from muster.model.job import Role
from muster.model.task import TaskId, TaskOrder
from muster.wire.agents.agent_messages import NeedPack

DATA = bytes(range(256)) * 10
DIGEST = "sha256:" + hashlib.sha256(DATA).hexdigest()


def order(index: int = 0, ship: str = DIGEST) -> TaskOrder:
    id = TaskId(1, 1, Role.WORKER, index)
    return TaskOrder(id, "n0", (), ("true",), {}, "/d/jobs/1-a/work", "log", ship=ship)


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackSource:
    monkeypatch.setattr(source, "PART", 1000)
    packs = PackFolder(tmp_path / "daemon")
    packs.add(DIGEST, 0, DATA)
    packs.finish(DIGEST)
    return PackSource(packs)


@pytest.fixture
def here(tmp_path: Path) -> PackFolder:
    return PackFolder(tmp_path / "agent")


def fetched(cache: PackCache, daemon: PackSource, parts: int = 100) -> list[TaskOrder]:
    """Ask and answer until there is nothing left to ask, or the connection breaks."""
    ready = []
    while parts and (needs := cache.unasked()):
        parts -= 1
        for need in needs:
            ready += cache.take(daemon.part(need, allowed=True))
    return ready


def test_orders_wait_for_their_folder_and_one_fetch_serves_all(
    daemon: PackSource, here: PackFolder
) -> None:
    cache = PackCache(here)
    assert cache.holds(order(0)) and cache.holds(order(1))
    assert not cache.holds(order(2, ship=""))
    assert len(cache.unasked()) == 1
    assert cache.unasked() == []  # it is under way
    cache.connected()
    assert fetched(cache, daemon) == [order(0), order(1)]
    assert here.path(DIGEST).read_bytes() == DATA
    assert not cache.holds(order(3))


def test_a_broken_connection_is_continued_where_it_broke(daemon: PackSource, here: PackFolder) -> None:
    cache = PackCache(here)
    cache.holds(order())
    assert fetched(cache, daemon, parts=2) == []
    again = PackCache(here)  # an agent that was restarted
    again.holds(order())
    assert again.unasked() == [NeedPack(DIGEST, 2000)]
    again.connected()
    assert fetched(again, daemon) == [order()]


def test_an_agent_gets_no_pack_that_it_has_no_order_for(daemon: PackSource) -> None:
    part = daemon.part(NeedPack(DIGEST), allowed=False)
    assert (part.data, part.last) == ("", False)
    assert "no order of the node ships it" in part.problem
    assert daemon.part(NeedPack("../../etc/passwd"), allowed=True).problem


def test_an_order_whose_pack_is_gone_is_started_and_fails(here: PackFolder, tmp_path: Path) -> None:
    cache = PackCache(here)
    cache.holds(order())
    assert fetched(cache, PackSource(PackFolder(tmp_path / "empty"))) == [order()]


def test_a_stopped_order_waits_no_longer(daemon: PackSource, here: PackFolder) -> None:
    cache = PackCache(here)
    cache.holds(order())
    assert cache.release(order().id) == order()
    assert fetched(cache, daemon) == []


def test_what_was_not_asked_for_is_not_kept(daemon: PackSource, here: PackFolder) -> None:
    assert PackCache(here).take(daemon.part(NeedPack(DIGEST), allowed=True)) == []
    assert here.size(DIGEST) == 0


def test_a_jobs_own_folder_is_the_agents_where_it_does_not_see_the_daemons() -> None:
    environ = {"MUSTER_CHECKPOINT": "/d/jobs/1-a/checkpoint", "DATA": "/d/jobs/1-a/x"}
    own = replace(order(), private="/d/jobs/1-a", environ=environ)
    found = moved(own, Path("/agent/jobs"))
    assert (found.private, found.folder) == ("/agent/jobs/1-a", "/agent/jobs/1-a/work")
    assert found.environ == {"MUSTER_CHECKPOINT": "/agent/jobs/1-a/checkpoint", "DATA": "/d/jobs/1-a/x"}
    at_url = replace(own, folder="/home/ada", environ={"MUSTER_CHECKPOINT": "s3://bucket/run"})
    assert moved(at_url, Path("/agent/jobs")).folder == "/home/ada"
    assert moved(at_url, Path("/agent/jobs")).environ == at_url.environ
