"""Jobs are listed, paged and looked up; keys, predictions, notes, tokens and settings are kept."""

from dataclasses import replace

import pytest

from muster.store.batch import Batch, Note, SubmissionKey
from muster.store.errors import UnwritableError
from muster.store.store import Store, open_store
from muster.wire.api.records import JobRecord, PredictionRecord, TokenRecord
from tests.unit.store.samples import arrivals, record

FLEET = (
    record(1, user="ann", pool="vision", status="succeeded"),
    record(2, user="bob", pool="vision", status="running", name="train"),
    record(3, user="ann", pool="speech", status="waiting"),
    record(4, user="cyd", pool="speech", status="failed"),
    record(5, user="bob", pool="speech", status="running", name="train"),
    record(6, user="ann", pool="vision", status="running"),
)


@pytest.fixture
def fleet(store: Store) -> Store:
    store.write(Batch(records=FLEET))
    return store


def numbers(jobs: list[JobRecord]) -> list[int]:
    return [job.number for job in jobs]


def test_jobs_come_newest_first_and_as_they_were_written(fleet: Store) -> None:
    assert fleet.jobs() == list(reversed(FLEET))


def test_jobs_can_be_chosen(fleet: Store) -> None:
    assert numbers(fleet.jobs(statuses=("running", "failed"))) == [6, 5, 4, 2]
    assert numbers(fleet.jobs(user="ann")) == [6, 3, 1]
    assert numbers(fleet.jobs(pool="speech")) == [5, 4, 3]
    assert numbers(fleet.jobs(name="train")) == [5, 2]
    assert numbers(fleet.jobs(user="ann", pool="vision", statuses=("running",))) == [6]
    assert numbers(fleet.jobs(limit=2)) == [6, 5]
    assert numbers(fleet.jobs(user="dan")) == []


def test_a_user_sees_their_own_jobs_and_those_of_shared_pools(fleet: Store) -> None:
    assert numbers(fleet.jobs(users_or_pools=("ann", ()))) == [6, 3, 1]
    assert numbers(fleet.jobs(users_or_pools=("ann", ("speech",)))) == [6, 5, 4, 3, 1]
    assert numbers(fleet.jobs(users_or_pools=("dan", ("speech", "vision")), limit=3)) == [6, 5, 4]
    assert numbers(fleet.jobs(users_or_pools=("ann", ("speech",)), before=5, limit=2)) == [4, 3]
    seen = fleet.jobs(users_or_pools=("ann", ("speech",)), user="bob", statuses=("running",))
    assert numbers(seen) == [5]


def test_pages_stay_as_they_are_while_jobs_are_added_and_change(store: Store) -> None:
    store.write(arrivals(range(1, 26)))
    seen: list[int] = []
    before: int | None = None
    while page := store.jobs(before=before, limit=10):
        seen += numbers(page)
        before = seen[-1]
        new = store.highest() + 1
        store.write(arrivals((new, new + 1)))
        store.write(Batch(records=(record(seen[0], status="running"),)))
    assert seen == list(range(25, 0, -1))


def test_a_record_replaces_the_one_before(store: Store) -> None:
    store.write(Batch(records=(record(1), record(1, status="starting"))))
    assert store.counts() == {"starting": 1}
    changed = record(1, status="running", pool="other", loss=0.5)
    store.write(Batch(records=(changed,)))
    assert store.job(1) == changed
    assert numbers(store.jobs(pool="other")) == [1]
    assert store.jobs(pool="default") == []
    assert store.counts() == {"running": 1}


def test_jobs_are_looked_up_by_number_and_name(fleet: Store) -> None:
    assert fleet.job(4) == FLEET[3]
    assert fleet.job(7) is None
    assert fleet.named(FLEET[4].user, "train") == FLEET[4]
    assert fleet.named("ann", "nothing") is None


def test_jobs_are_counted_by_status(fleet: Store) -> None:
    assert fleet.counts() == {"succeeded": 1, "running": 3, "waiting": 1, "failed": 1}
    assert fleet.highest() == 6


def test_an_empty_store_has_no_jobs(store: Store) -> None:
    assert (store.jobs(), store.counts(), store.highest()) == ([], {}, 0)


def test_a_key_belongs_to_its_user(store: Store) -> None:
    store.write(Batch(keys=(SubmissionKey("ann", "k", 1, "d"), SubmissionKey("bob", "k", 2))))
    assert store.key("ann", "k") == SubmissionKey("ann", "k", 1, "d")
    assert store.key("bob", "k") == SubmissionKey("bob", "k", 2)
    assert store.key("cyd", "k") is None
    with pytest.raises(UnwritableError):
        store.write(Batch(keys=(SubmissionKey("ann", "k", 3),)))
    assert store.key("ann", "k") == SubmissionKey("ann", "k", 1, "d")


def test_what_came_of_a_prediction_replaces_it(store: Store) -> None:
    start = PredictionRecord(10.0, "start", 20.0)
    finish = PredictionRecord(10.0, "finish", 99.0)
    later = PredictionRecord(50.0, "finish", 101.25)
    store.write(Batch(predictions=((1, start), (1, later), (2, finish))))
    known = replace(start, real=22.5, error=-0.2)
    store.write(Batch(predictions=((1, known), (1, finish))))
    assert store.predictions(1) == [finish, known, later]
    assert store.predictions(2) == [finish]
    assert store.predictions(3) == []


def note(index: int, kind: str = "step") -> Note:
    return Note(kind, f"key-{index}", float(index), bytes([index, 0, 255]))


def test_the_last_notes_of_a_kind_come_oldest_first(store: Store) -> None:
    store.write(Batch(notes=tuple(note(i) for i in range(5))))
    store.write(Batch(notes=(note(9, "link"), note(5))))
    assert store.notes("step", 3) == [note(3), note(4), note(5)]
    assert store.notes("link", 10) == [note(9, "link")]
    assert store.notes("other", 10) == []


def test_notes_beyond_the_number_to_keep_are_removed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.store.store.NOTES_BETWEEN", 4)
    store = open_store(url, keep_notes=3)
    store.write(Batch(notes=(note(0, "link"),)))
    for i in range(12):
        store.write(Batch(notes=(note(i),)))
        assert len(store.notes("step", 100)) <= 3 + 4
    assert store.notes("step", 3) == [note(9), note(10), note(11)]
    assert store.notes("link", 100) == [note(0, "link")]
    store.close()
    again = open_store(url, keep_notes=3)
    again.write(Batch(notes=(note(12),)))
    assert again.notes("step", 100) == [note(10), note(11), note(12)]
    again.close()


def test_tokens_are_found_by_the_digest_of_their_secret(store: Store) -> None:
    store.add_token("laptop", "ann", "user", "d1", 5.0)
    store.add_token("boss", "bob", "admin", "d2", 6.0)
    assert store.token("d1") == TokenRecord("laptop", "ann", "user", 5.0)
    assert store.token("d3") is None
    store.touch_token("d1", 7.5)
    assert store.tokens() == [
        TokenRecord("boss", "bob", "admin", 6.0),
        TokenRecord("laptop", "ann", "user", 5.0, used=7.5),
    ]


def test_a_revoked_token_is_nobodys(store: Store) -> None:
    store.add_token("laptop", "ann", "user", "d1", 5.0)
    assert store.revoke_token("laptop")
    assert not store.revoke_token("laptop")
    assert store.token("d1") is None
    store.add_token("laptop", "ann", "user", "d2", 6.0)


def test_a_name_and_a_digest_are_one_tokens(store: Store) -> None:
    store.add_token("laptop", "ann", "user", "d1", 5.0)
    with pytest.raises(UnwritableError):
        store.add_token("laptop", "bob", "admin", "d2", 6.0)
    with pytest.raises(UnwritableError):
        store.add_token("other", "bob", "admin", "d1", 6.0)
    assert store.token("d1") == TokenRecord("laptop", "ann", "user", 5.0)
    assert store.token("d2") is None


def test_settings_are_small_texts(store: Store) -> None:
    assert store.setting("cluster") is None
    store.set_setting("cluster", "lab")
    store.set_setting("port", "7070")
    store.set_setting("cluster", "Ωlab\n2")
    assert (store.setting("cluster"), store.setting("port")) == ("Ωlab\n2", "7070")
