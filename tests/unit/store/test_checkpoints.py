"""SQLite's log is copied into the file beside the commits, and does not grow without end."""

import threading
from pathlib import Path

import pytest

from muster.store.checkpoints import LONGEST
from muster.store.store import open_store
from tests.unit.store.child import wait_for
from tests.unit.store.samples import arrivals

PAGE = 4_096


def test_what_was_committed_is_in_the_file_before_a_commit_has_to_copy_it(tmp_path: Path) -> None:
    path = tmp_path / "muster.db"
    store = open_store(str(path))
    assert store.claim()
    before = path.stat().st_size
    store.write(arrivals(range(1, 2_001)))
    assert (tmp_path / "muster.db-wal").stat().st_size < LONGEST * PAGE, "no commit copies so little"
    wait_for(lambda: path.stat().st_size > before + 500_000)
    store.close()
    assert not [each for each in threading.enumerate() if each.name == "muster-checkpoints"]


def test_the_log_starts_over_while_nothing_copies_it_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.store.checkpoints.INTERVAL", 1e6)
    store = open_store(str(tmp_path / "muster.db"))
    assert store.claim()
    for at in range(12):
        store.write(arrivals(range(2_000 * at + 1, 2_000 * at + 2_001)))
    written = (tmp_path / "muster.db").stat().st_size
    assert written > LONGEST * PAGE
    assert (tmp_path / "muster.db-wal").stat().st_size < 2 * LONGEST * PAGE
    store.close()
