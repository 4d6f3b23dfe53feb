"""How a store asks PostgreSQL: as seldom as it can, and again after the server was restarted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from muster.store.store import Store, open_store
from tests.unit.store.conftest import Postgres
from tests.unit.store.relay import Relay
from tests.unit.store.samples import arrivals
from tests.unit.store.test_processes import cut

READERS = 8


@pytest.fixture
def relay(postgres: Postgres, tmp_path: Path) -> Iterator[Relay]:
    relay = Relay(tmp_path, postgres())
    yield relay
    relay.close()


def test_what_is_read_is_asked_for_once(relay: Relay) -> None:
    store = open_store(relay.url)
    store.write(arrivals(range(1, 4)))
    assert store.last_seq() == 3  # the connection is made
    for ask in (store.last_seq, store.jobs, lambda: store.job(2), lambda: store.key("ann", "key-1")):
        before = relay.asked
        ask()
        assert relay.asked == before + 1
    store.close()


def test_a_flood_of_readers_leaves_its_connections_to_the_next(relay: Relay) -> None:
    store = open_store(relay.url)
    _read_together(store)
    before = relay.asked
    _read_together(store)
    assert relay.asked == before + READERS
    store.close()


def test_readers_go_on_after_the_server_has_ended_all_connections(postgres: Postgres) -> None:
    url = postgres()
    store = open_store(url)
    store.write(arrivals((1,)))
    assert _read_together(store) == [1] * READERS
    cut(url)
    assert _read_together(store) == [1] * READERS
    store.close()


def _read_together(store: Store) -> list[int]:
    """Read over as many connections as there are readers."""
    barrier = Barrier(READERS)

    def read(_: int) -> int:
        with store._database.reading() as connection:
            barrier.wait()
            return int(connection.exec_driver_sql("SELECT count(*) FROM journal").scalar() or 0)

    with ThreadPoolExecutor(READERS) as threads:
        return list(threads.map(read, range(READERS)))
