"""Daemons die at any moment, two of them meet at one store, and the disk fills up."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from muster.model.event import Submitted
from muster.store.batch import Batch
from muster.store.errors import ClaimLostError, StoreError
from muster.store.store import Store, open_store
from tests.unit.store.child import BATCH, wait_for
from tests.unit.store.samples import arrivals, record

ROOT = Path(__file__).parents[3]
Child = subprocess.Popen[str]
Begin = Callable[[str, str], Child]


@pytest.fixture
def begin() -> Iterator[Begin]:
    """Starts a process of `child`; all are killed in the end."""
    children: list[Child] = []

    def start(what: str, url: str) -> Child:
        command = [sys.executable, "-m", "tests.unit.store.child", what, url]
        pipe = subprocess.PIPE
        children.append(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True))
        return children[-1]

    yield start
    for child in children:
        kill(child)


def kill(child: Child) -> list[str]:
    """Kill -9; what it had printed and nobody read."""
    child.kill()
    said, _ = child.communicate()
    return said.splitlines()


def line(child: Child) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_a_killed_writer_leaves_whole_batches_and_all_it_told_of(url: str, begin: Begin) -> None:
    told = 0
    for batches in (1, 4, 9):
        child = begin("write", url)
        for _ in range(batches):
            told = int(line(child))
        told = max(told, *map(int, kill(child)), 0)
    store = open_store(url)
    wait_for(store.claim)
    assert store.last_seq() >= told
    assert store.last_seq() % BATCH == 0
    everything = list(range(1, store.last_seq() + 1))
    facts = [entry.fact for entry in store.facts()]
    assert [fact.job.number for fact in facts if isinstance(fact, Submitted)] == everything
    assert [job.number for job in store.jobs(limit=10**6)] == everything[::-1]
    keys = [store.key("ann", f"key-{number}") for number in everything]
    assert [key.number for key in keys if key] == everything
    store.close()


def test_the_second_daemon_takes_over_when_the_first_is_killed(url: str, begin: Begin) -> None:
    first = begin("claim", url)
    assert line(first) == "True"
    second = open_store(url)
    assert not second.claim()
    assert not second.holds()
    assert line(begin("claim", url)) == "False"
    kill(first)
    wait_for(second.claim)
    assert second.holds()
    assert second.claim()
    assert line(begin("claim", url)) == "False"
    second.close()
    assert line(begin("claim", url)) == "True"


def test_two_stores_of_one_process_do_not_both_claim(url: str) -> None:
    first, second = open_store(url), open_store(url)
    assert (first.claim(), second.claim()) == (True, False)
    first.write(arrivals((1,)))
    assert second.last_seq() == 1
    first.close()
    assert second.claim()
    second.close()


def cut(url: str) -> None:
    """End all connections to a database of PostgreSQL but this one, as its restart would."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_who_loses_the_connection_writes_no_more(
    postgres: Callable[[], str],
) -> None:
    url = postgres()
    store, standby = open_store(url), open_store(url)
    assert store.claim()
    store.write(arrivals((1,)))
    cut(url)
    assert standby.claim()
    for _ in range(2):
        with pytest.raises(ClaimLostError):
            store.write(arrivals((2,)))
    with pytest.raises(ClaimLostError):
        store.set_setting("cluster", "lab")
    assert not store.holds()
    assert not store.claim()
    assert store.last_seq() == 1  # it may look on
    standby.close()
    assert store.claim()
    assert store.write(arrivals((2,))) == (2, 2)
    store.close()


def test_whoever_asks_hears_that_the_claim_is_lost(postgres: Callable[[], str]) -> None:
    url = postgres()
    store = open_store(url)
    assert store.claim()
    cut(url)
    assert not store.holds()
    with pytest.raises(ClaimLostError):
        store.write(arrivals((1,)))
    store.close()


def test_a_store_that_nobody_claimed_comes_back_with_its_database(postgres: Callable[[], str]) -> None:
    url = postgres()
    store = open_store(url)
    store.write(arrivals((1,)))
    cut(url)
    assert store.last_seq() == 1
    with pytest.raises(StoreError):
        store.write(arrivals((2,)))
    assert store.write(arrivals((2,))) == (2, 2)
    store.close()


def test_a_claim_is_lost_with_the_file_that_is_locked(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "muster.db"))
    assert store.claim()
    (tmp_path / "muster.db.lock").unlink()
    assert not store.holds()
    with pytest.raises(ClaimLostError, match="no longer claimed by this daemon"):
        store.write(arrivals((1,)))
    assert store.claim()
    store.write(arrivals((1,)))
    store.close()


def test_a_full_disk_refuses_the_write_and_nothing_else(tmp_path: Path, begin: Begin) -> None:
    child = begin("fill", str(tmp_path / "muster.db"))
    refused, read, written = (line(child) for _ in range(3))
    assert refused.startswith("refused StoreError: the store sqlite:///")
    assert "could not be written" in refused
    full = int(read.split()[1])
    assert full > 1
    assert read == f"read {full} {full} {full}"
    assert written == f"written {full + 1} {full + 1}"
    assert child.wait() == 0
    store = open_store(str(tmp_path / "muster.db"))
    assert store.write(Batch(records=(record(1, status="running"),))) == (full + 2, full + 1)
    assert store.counts() == {"waiting": full, "running": 1}
    store.close()


def test_threads_read_while_one_writes(store: Store) -> None:
    def look(_: int) -> bool:
        page = store.jobs(limit=5)
        return [job.number for job in page] == sorted((job.number for job in page), reverse=True)

    with ThreadPoolExecutor(8) as threads:
        looks = threads.map(look, range(100))
        for number in range(1, 40):
            store.write(arrivals((number,)))
        assert all(looks)
    assert store.last_seq() == 39
