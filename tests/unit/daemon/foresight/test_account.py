"""What a process starts with: jobs and forecasts of before, as the store has them."""

from dataclasses import replace
from pathlib import Path

from muster.daemon.foresight.account import kept_of, outcomes, remembered, row_of
from muster.daemon.foresight.past_notes import note_of, past_jobs
from muster.foresight.kept import BEGIN, FINISH, KeptForecast
from muster.foresight.past import PastJob
from muster.foresight.quantiles import TimeInterval
from muster.model.event import Cancelled, Ended, Outcome, StartBegun
from muster.model.job import Program
from muster.model.outlook import Outlook, Table
from muster.model.task import Fact
from muster.store.batch import Batch
from muster.store.store import Store, open_store
from muster.wire.api.records import JobRecord
from tests.builders import job, placement

SAID, RAW = TimeInterval(200.0, 150.0, 300.0), TimeInterval(210.0, 100.0, 400.0)


def _kept(number: int, what: str = FINISH, mark: str = "start") -> KeptForecast:
    return KeptForecast(number, what, mark, 100.0, SAID, RAW, "default", False, 7)


def _store(folder: Path) -> Store:
    store = open_store(str(folder / "muster.db"))
    assert store.claim()
    return store


def test_forecasts_are_scored_by_what_becomes_of_their_job(tmp_path: Path) -> None:
    store = _store(tmp_path)
    made = [_kept(1, BEGIN, "submission"), _kept(1), _kept(2), _kept(3)]
    store.write(Batch(forecasts=tuple(map(row_of, made))))
    assert [kept_of(row) for row in store.open_forecasts()] == made
    facts: list[Fact] = [
        StartBegun(1, 1, placement(("n0", 1)), 120.0),
        Ended(1, 1, Outcome.FAILED, 260.0),
        Cancelled(2, 180.0),
    ]
    store.write(Batch(outcomes=tuple(outcomes(facts))))
    assert {row.what: row.came for row in store.job_forecasts(1)} == {BEGIN: 120.0, FINISH: 260.0}
    assert store.job_forecasts(2) == [], "somebody stopped it: nothing comes of its forecast"
    assert [row.number for row in store.open_forecasts()] == [3]
    assert {row.what for row in store.forecasts(pool="default")} == {BEGIN, FINISH}
    assert store.forecasts(pool="other") == store.forecasts(since=101.0) == []
    store.close()


def test_what_came_true_while_no_daemon_was_there_is_scored_when_one_starts(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.write(
        Batch(
            records=(
                JobRecord(1, "a", "ann", "default", "succeeded", started=110.0, ended=250.0),
                JobRecord(2, "b", "ann", "default", "cancelled", started=110.0, ended=250.0),
                JobRecord(3, "c", "ann", "default", "running", started=110.0),
            ),
            forecasts=tuple(row_of(_kept(number)) for number in (1, 2, 3)),
        )
    )
    found = {each.number: each.came for each in remembered(store, {3}, began=0.0).kept}
    assert found == {1: 250.0, 3: None}
    store.close()


def test_a_young_daemon_has_followed_since_it_began(tmp_path: Path) -> None:
    """Not only since its first job: a minute without any says how often they come."""
    store = _store(tmp_path)
    assert remembered(store, (), began=40.0).since == 40.0
    note = note_of(PastJob(job("a"), 10.0, 5.0, True), ("V100",), 20.0)
    assert note is not None
    store.write(Batch(notes=(note,)))
    assert remembered(store, (), began=40.0).since == 10.0
    store.close()


def test_a_job_is_remembered_without_its_environment() -> None:
    secret = Program(environ=(("TOKEN", "secret"),))
    asked = replace(job("a", 2, most=4), program=secret)
    outlook = Outlook(50.0, Table((1.0, 1.8, 2.4, 2.8)), 0.3)
    note = note_of(PastJob(asked, 10.0, 90.0, True, outlook), ("V100",), 100.0)
    assert note is not None and b"secret" not in note.body
    (found,) = past_jobs([note, replace(note, body=b"unreadable")])
    assert (found.submitted, found.length, found.over) == (10.0, 90.0, True)
    assert found.outlook is not None
    assert found.outlook.speed.rate("V100", 4) == 2.8
    assert found.job.workers == asked.workers
