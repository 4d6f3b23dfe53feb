"""Daemons for tests: one that many share, and as many of their own as they like."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.daemons import Daemon
from tests.unit.store.conftest import postgres

__all__ = ["postgres"]

LEND = "lend"
"""A pool without a reservation: what it has is borrowed from the pool `default`."""


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"))
    try:
        daemon.start()
        daemon.client.set_pool(LEND, quotas={"cpu": {"reservation": 0}})
        yield daemon
        daemon.clear()
        assert daemon.stop() == 0
    finally:
        daemon.end()


@pytest.fixture
def daemon(_shared: Daemon) -> Iterator[Daemon]:
    """One with four devices and the pools `default` and `lend`, for tests that leave it running."""
    yield _shared
    _shared.clear()


Make = Callable[..., Daemon]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes daemons of the test's own, each in its folder; what still runs in the end is cleared."""
    made: list[Daemon] = []

    def one(*options: str, name: str = "a", **how: Any) -> Daemon:
        daemon = Daemon(tmp_path / name, *options, **how)
        made.append(daemon)
        return daemon

    try:
        yield one
        for daemon in made:
            if daemon.runs and daemon.is_ready:
                daemon.clear()
                assert daemon.stop() == 0
            assert not daemon.strays()
    finally:
        for daemon in made:
            daemon.end()
