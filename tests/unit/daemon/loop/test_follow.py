"""Running jobs followed: predictions, how wrong they were, what beliefs and metrics learn."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from muster.core.state.evolve import evolve
from muster.daemon.assembly import RunningDaemon
from muster.daemon.loop.follow import MIN_SHIFT_SECONDS, held
from muster.daemon.loop.job_summaries import JobSummary
from muster.model.event import NodeLost
from muster.model.job import Program, Role
from muster.model.view import Phase
from muster.wire.api.records import PredictionRecord
from tests.builders import SERVER_TASK, cluster, job, placement, running, slot, view
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, until


def play(tmp_path: Path, scenario: Callable[[RunningDaemon], Awaitable[None]]) -> None:
    """A daemon with a running job, number 1; the test refreshes by hand."""

    async def played() -> None:
        async with running_daemon(tmp_path, begin=False) as made:
            made.daemon.pace = replace(made.daemon.pace, refresh=1e9)
            made.daemon._refreshed = 1e12
            made.begin()
            await made.service.submit(ANN, program("a", "live"))
            await until(made, lambda: made.daemon.view.jobs[1].phase is Phase.RUNNING)
            await scenario(made)

    asyncio.run(played())


def predict(made: RunningDaemon, monkeypatch: pytest.MonkeyPatch, finish: float | None) -> JobSummary:
    """Look at the job, of which this is believed."""
    monkeypatch.setattr(made.daemon.beliefs, "finish", lambda *_: finish)
    made.daemon.follower.refresh()
    return made.daemon.summaries[1]


def test_a_prediction_is_stored_again_once_it_has_moved_far_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: RunningDaemon) -> None:
        now = made.daemon.clock.now()
        for finish in (now + 40.0, now + 40.0 + MIN_SHIFT_SECONDS / 2, now + 200.0):
            assert predict(made, monkeypatch, finish).predicted_finish == finish
        summary = made.daemon.summaries[1]
        assert summary.first_prediction is not None
        assert summary.last_prediction is not None
        assert summary.first_prediction.predicted == now + 40.0
        assert summary.last_prediction.predicted == now + 200.0
        await until(made, lambda: len(made.daemon.store.predictions(1)) == 2)

    play(tmp_path, scenario)


def test_a_start_is_measured_from_the_moment_it_was_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: RunningDaemon) -> None:
        state = made.daemon.view.jobs[1]
        found: list[object] = []
        monkeypatch.setattr(made.daemon.beliefs, "holds", lambda *told: found.append(told[-1]))
        made.daemon.follower.tell_held(state)
        assert state.started is not None
        assert found == [state.started]

    play(tmp_path, scenario)


def test_what_is_not_known_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(made: RunningDaemon) -> None:
        predict(made, monkeypatch, made.daemon.clock.now() + 40.0)
        summary = predict(made, monkeypatch, None)
        assert summary.predicted_finish is None
        assert summary.first_prediction is not None, "still compared with the end"

    play(tmp_path, scenario)


def test_a_job_that_ends_well_is_compared_with_its_first_prediction_and_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: RunningDaemon) -> None:
        daemon, forgotten = made.daemon, list[int]()
        daemon.follower.forgets.append(forgotten.append)
        state, now = daemon.view.jobs[1], daemon.clock.now()
        first = PredictionRecord(now - 10.0, "finish", now + 5.0)
        ended = JobSummary(first_prediction=first, ended=now, outcome="succeeded")
        daemon.follower.ended(state.job, ended)
        assert forgotten == [1]
        daemon.wake()
        await until(made, lambda: bool(daemon.store.predictions(1)))
        (stored,) = daemon.store.predictions(1)
        assert stored.real == now
        assert stored.error == pytest.approx(0.5)
        assert 'ratio_count{direction="late"} 1.0' in daemon.metrics.text().decode()

    play(tmp_path, scenario)


def test_a_job_that_failed_proves_no_prediction_wrong(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        now = made.daemon.clock.now()
        first = PredictionRecord(now - 10.0, "finish", now + 5.0)
        ended = JobSummary(first_prediction=first, ended=now, outcome="failed")
        made.daemon.follower.ended(made.daemon.view.jobs[1].job, ended)
        assert "ratio_count{" not in made.daemon.metrics.text().decode()

    play(tmp_path, scenario)


def test_starts_and_tasks_are_counted(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        text = made.daemon.metrics.text().decode()
        assert "muster_wait_seconds_count 1.0" in text
        assert 'muster_tasks_total{event="ordered"} 1.0' in text

    play(tmp_path, scenario)


def test_a_job_runs_on_its_workers_by_node_in_the_clusters_order() -> None:
    here = cluster(3)
    server = slot("n0", 0, role=Role.SERVER, need=SERVER_TASK)
    state = running(job("j", 3, servers=1), placement(("n2", 1), ("n1", 1), ("n2", 2), server))
    found = held(here, state)
    assert found is not None
    assert (found.device_type, found.shape) == ("A100", (1, 2))
    assert held(here, replace(state, phase=Phase.STARTING)) is None


def test_a_node_lost_while_a_job_leaves_it_leaves_nothing_to_run_on() -> None:
    moving = running(job("j"), placement(("n0", 1)), target=placement(("n1", 1)), phase=Phase.MIGRATING)
    after = evolve(view(cluster(2), [moving]), [NodeLost("n0", 9.0, "its allocation ends")])
    state = after.jobs[moving.number]
    assert state.phase is Phase.MIGRATING, "its new task goes on"
    assert held(after.cluster, state) is None


@pytest.mark.parametrize("limit", [None, 600.0])
def test_a_session_is_expected_to_end_by_its_time_limit_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: float | None
) -> None:
    async def scenario(made: RunningDaemon) -> None:
        asked = program("s", "live", duration=40.0, program=Program(interactive=0.0, time=limit))
        number = (await made.service.submit(ANN, asked)).number
        await until(made, lambda: made.daemon.view.jobs[number].phase is Phase.RUNNING)
        made.daemon.follower.foretold({})
        predict(made, monkeypatch, made.daemon.clock.now() + 40.0)
        started = made.daemon.view.jobs[number].started
        assert started is not None
        expected = None if limit is None else started + limit
        assert made.daemon.summaries[number].predicted_finish == expected

    play(tmp_path, scenario)
