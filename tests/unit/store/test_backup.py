"""A copy of a store, made while it is written, starts a daemon as the store itself would."""

import threading
from pathlib import Path

import pytest

from muster.store.backup import back_up, restore
from muster.store.batch import Batch, Note
from muster.store.errors import StoreError
from muster.store.store import Store, open_store
from muster.wire.api.records import ActRecord
from tests.unit.store.samples import arrivals

ACT = ActRecord(1.0, "ann", "local", "submit", "1", "done", "")


def filled(store: Store) -> None:
    store.write(arrivals(range(1, 51)))
    store.write(Batch(notes=(Note("speed", "a", 1.0, b"\x00\xff"),), acts=(ACT,)))
    store.snapshot(50, b"state")
    store.set_setting("cluster", "lab")


def same(one: Store, other: Store) -> bool:
    def told(store: Store) -> object:
        facts = [(entry.seq, entry.fact) for entry in store.facts()]
        notes = store.notes("speed", 9)
        return (
            facts,
            store.jobs(),
            notes,
            store.latest(),
            store.setting("cluster"),
            store.acts(user=None, since=0.0, limit=9),
        )

    return told(one) == told(other)


def test_a_copy_holds_what_the_store_does(store: Store, url: str, tmp_path: Path) -> None:
    filled(store)
    back_up(url, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o077 == 0, "as private as the store"
    assert [each.name for each in tmp_path.iterdir() if "copy" in each.name] == ["copy.db"]
    copy = open_store(str(tmp_path / "copy.db"))
    assert same(store, copy)
    copy.close()


def test_a_copy_made_while_jobs_come_in_is_of_one_moment(
    store: Store, url: str, tmp_path: Path
) -> None:
    filled(store)
    begun, over = threading.Event(), threading.Event()

    def submit() -> None:
        number = 51
        while not over.is_set():
            store.write(arrivals([number]))
            number += 1
            if number == 60:
                begun.set()

    writer = threading.Thread(target=submit)
    writer.start()
    begun.wait(60)
    back_up(url, tmp_path / "copy.db")
    over.set()
    writer.join()
    copy = open_store(str(tmp_path / "copy.db"))
    facts = [entry.seq for entry in copy.facts()]
    assert len(facts) >= 59 and facts == list(range(1, len(facts) + 1))
    assert [each.number for each in copy.jobs(limit=9_999)] == facts[::-1], "no job without its fact"
    copy.close()


def test_a_copy_is_restored_into_an_empty_store(store: Store, url: str, tmp_path: Path) -> None:
    """Of either kind: from SQLite to PostgreSQL, and back."""
    source = open_store(str(tmp_path / "source.db"))
    filled(source)
    back_up(str(tmp_path / "source.db"), tmp_path / "copy.db")
    store.close()
    if "://" not in url:
        Path(url).unlink()
    restore(tmp_path / "copy.db", url)
    restored = open_store(url)
    assert same(source, restored)
    restored.write(Batch(notes=(Note("speed", "b", 2.0, b""),), acts=(ACT,)))
    assert len(restored.notes("speed", 9)) == 2, "what it numbers itself goes on after the copied ones"
    restored.close()
    source.close()


def test_nothing_is_overwritten(store: Store, url: str, tmp_path: Path) -> None:
    filled(store)
    back_up(url, tmp_path / "copy.db")
    with pytest.raises(StoreError, match=r"copy\.db exists; give another name"):
        back_up(url, tmp_path / "copy.db")
    with pytest.raises(StoreError, match=r"exists; move it away|is not empty"):
        restore(tmp_path / "copy.db", url)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        back_up(str(tmp_path / "none.db"), tmp_path / "copy.db")
    (tmp_path / "text").write_text("not a database", encoding="utf-8")
    with pytest.raises(StoreError, match="is not a copy of a store"):
        restore(tmp_path / "text", str(tmp_path / "new.db"))
