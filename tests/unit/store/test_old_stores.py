"""Stores written by released versions open with the current code, with everything that is in them."""

import asyncio
import gzip
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine, insert, select

from muster.daemon.assembly import COORDINATOR, Site, open_daemon
from muster.daemon.loop.recover import load_state
from muster.daemon.loop.state import State
from muster.daemon.service.protocol import JobQuery
from muster.executors.environment import free_row
from muster.model.cluster import NodeState
from muster.model.task import job_of
from muster.model.view import Phase
from muster.store.codec import decode, encode_record
from muster.store.database import parse
from muster.store.migrate import upgrade
from muster.store.schema import jobs
from muster.store.store import Store, open_store
from muster.wire.api.records import JobRecord
from tests.contract.fake_executor import FakeExecutor, Machine
from tests.unit.daemon.running_daemons import ADMIN

DUMP = Path(__file__).parents[2] / "data" / "stores" / "0.1.sql.gz"
STATUSES = {
    1: "succeeded",
    2: "failed",
    3: "cancelled",
    4: "succeeded",
    5: "running",
    6: "running",
    7: "waiting",
}
"""What became of each job by the time the store was left: see `make_store`."""


@pytest.fixture
def store(url: str, tmp_path: Path) -> Iterator[Store]:
    """The store of version 0.1, on either kind of database."""
    path = tmp_path / "dumped.db" if "://" in url else Path(url)
    with sqlite3.connect(path) as database:
        database.executescript(gzip.decompress(DUMP.read_bytes()).decode())
    database.close()
    if "://" in url:
        _copy(path, url)
    opened = open_store(url)
    yield opened
    opened.close()


def _copy(path: Path, url: str) -> None:
    """Fill the first tables of a database with what is in a file of SQLite."""
    old, new = create_engine(f"sqlite:///{path}"), create_engine(parse(url))
    tables = MetaData()
    tables.reflect(old)
    with old.connect() as source, new.begin() as target:
        upgrade(target, newest="0001")
        for table in tables.tables.values():
            rows = [dict(row._mapping) for row in source.execute(select(table))]
            if rows and table.name != "alembic_version":
                target.execute(insert(table), rows)
    old.dispose()
    new.dispose()


def folded(store: Store) -> State:
    """What the store's journal folds to, on the cluster that it began with."""
    saved = store.latest()
    assert saved is not None
    first = decode(saved.body, State)
    return load_state(store, first.view.cluster, first.view.pools, first.policy)


def test_its_live_jobs_are_as_they_were(store: Store) -> None:
    state = folded(store)
    jobs = state.view.jobs
    assert {number: each.job.name for number, each in jobs.items()} == {
        5: "elastic",
        6: "fixed",
        7: "queued",
    }
    assert state.view.names == {"root/elastic": 5, "root/fixed": 6, "root/queued": 7}
    phases = (Phase.RUNNING, Phase.RUNNING, Phase.WAITING)
    assert tuple(jobs[number].phase for number in (5, 6, 7)) == phases
    placed = jobs[5].placement
    assert placed is not None and len(placed.slots) == 2
    assert state.gangs[5].live and {task.job for task in state.gangs[5].tasks} == {5}
    assert (len(state.gangs[5].tasks), len(state.gangs[6].tasks)) == (2, 1)
    assert not state.gangs.keys() - {5, 6}
    assert state.policy == "fifo"
    assert state.view.cluster.node("n0").state is NodeState.DRAINING
    assert set(state.view.pools.leaves()) == {"default", "lend"}


def test_a_store_of_the_revision_before_gets_the_tables_it_lacks(url: str) -> None:
    engine = create_engine(parse(url))
    with engine.begin() as connection:
        upgrade(connection, newest="0008")
        row = {"number": 1, "name": "a", "user": "ann", "pool": "default", "status": "running"}
        body = encode_record(JobRecord(**row))  # type: ignore[arg-type]
        connection.execute(insert(jobs), {**row, "body": body, "submitted": 1.0})
    engine.dispose()
    opened = open_store(url)
    assert [record.name for record in opened.jobs()] == ["a"]
    assert (opened.curves(1), opened.timeline(0.0, 9.0), opened.unended_spans()) == ([], [], [])
    opened.close()


def test_its_lists_and_history_are_there(store: Store) -> None:
    assert {record.number: record.status for record in store.jobs()} == STATUSES
    entries = store.changes(0)
    assert [entry.seq for entry in entries] == list(range(1, 51))
    names = {record.number: record.name for record in store.jobs()}
    about = [(job_of(entry.fact), entry.name) for entry in entries]
    assert about == [(number, names.get(number or 0)) for number, _ in about]
    assert {number for number, _ in about} == {None, *STATUSES}
    assert store.changes(None, number=4)[0].name == "done"
    assert store.highest() == 7


def test_a_daemon_goes_on_from_it(store: Store, tmp_path: Path) -> None:
    store.set_setting(COORDINATOR, str(free_row("127.0.0.1", 1)))
    assert store.claim()
    view = folded(store).view
    site = Site(view.cluster, view.pools, "muster", tmp_path)

    async def go_on() -> None:
        made = await open_daemon(site, store, FakeExecutor(Machine()))
        try:
            assert set(made.daemon.summaries) == {5, 6, 7}
            assert set(made.daemon.state.gangs) == {5, 6}
            page = await made.service.jobs(ADMIN, JobQuery())
            assert {record.number: record.status for record in page.jobs} == STATUSES
            detail = await made.service.job(ADMIN, "elastic")
            assert detail.job.number == 5
            assert detail.job.step == 49, "what was last heard of it before the daemon was killed"
            assert [change.job for change in detail.changes] == ["elastic"] * len(detail.changes)
        finally:
            await made.close()

    asyncio.run(go_on())
