"""What lists say of live jobs, and of those that have just ended."""

from muster.core.why.words import names_for, tell
from muster.daemon.gang.setbacks import Setbacks
from muster.daemon.gang.state import GangState
from muster.daemon.gang.transitions import Goal
from muster.daemon.learn import Progress
from muster.daemon.loop.job_summaries import (
    JobSummary,
    asked,
    fold_summaries,
    record_of,
    restored_summary,
    status_of,
)
from muster.model.event import (
    Cancelled,
    Ended,
    Outcome,
    Preempted,
    Requeued,
    Resized,
    StartBegun,
    Submitted,
)
from muster.model.job import Role
from muster.model.reason import Code, Reason
from muster.model.task import StopAsked, TaskId, TaskOrdered
from muster.model.view import JobState, Phase
from muster.wire.api.records import PredictionRecord
from tests.builders import cluster, job, placement, running, view
from tests.numbers import number

J = number("j")
PLACED = placement(("n1", 0b01), ("n0", 0b11))
ORDERED = TaskOrdered(J, TaskId(J, 1, Role.WORKER, 0), PLACED.slots[0], 0.0)


def folded(*facts: object) -> JobSummary:
    return fold_summaries({}, [Submitted(job("j", 2), 0.0), *facts])[J]  # type: ignore[list-item]


def test_what_happens_to_a_job_is_counted() -> None:
    summary = folded(
        StartBegun(J, 1, PLACED, 5.0),
        Resized(J, 2, 6.0),
        Resized(J, 3, 7.0),
        Preempted(J, 3, 8.0),
        StartBegun(J, 4, PLACED, 9.0),
    )
    assert summary.started == 5.0, "its first start"
    assert (summary.resizes, summary.preemptions) == (2, 1)


def test_only_what_changes_is_returned() -> None:
    known = {number("a"): JobSummary(), number("b"): JobSummary()}
    changed = fold_summaries(known, [StopAsked(number("b"), 1.0), StopAsked(number("gone"), 1.0)])
    assert changed == {number("b"): JobSummary(stopping=True)}
    assert known[number("b")] == JobSummary()


def test_status_in_one_word() -> None:
    assert status_of(JobSummary(), Phase.WAITING) == "waiting"
    assert status_of(JobSummary(), Phase.RUNNING) == "running"
    assert status_of(JobSummary(stopping=True), Phase.PREEMPTING) == "stopping"
    assert status_of(JobSummary(stopping=True), Phase.WAITING) == "waiting"
    assert status_of(JobSummary(outcome="failed"), Phase.RUNNING) == "failed"


def test_a_running_job_with_its_devices_and_progress() -> None:
    state = running(job("j", 2), PLACED, submitted=1.0)
    gang = GangState(tasks=(ORDERED,), live=True, failures=1, losses=2)
    record = record_of(JobSummary(started=3.0), state, gang, Progress(step=7, steps=10, rate=5.0))
    assert (record.number, record.name, record.status) == (J, "j", "running")
    assert (record.workers, record.devices, record.nodes) == (2, 3, ("n0", "n1"))
    assert (record.step, record.steps, record.rate) == (7, 10, 5.0)
    assert (record.live, record.failures, record.losses) == (True, 1, 2)


def test_a_job_that_restarts_after_losses_says_so_and_why() -> None:
    state = running(job("j", 2), PLACED)
    setbacks = Setbacks(count=5, losses=5, delay=16.0)
    gang = GangState(goal=Goal.RESTART, setbacks=setbacks, error="worker-0 was killed\ntail")
    record = record_of(JobSummary(code="started.fits"), state, gang, None)
    assert (record.status, record.code) == ("restarting", "running.restarting")
    assert record.reason == "restarts 16 s after 5 losses in a row: worker-0 was killed"
    assert restored_summary(record, ()).code == "", "it follows from the state, which changes"


def test_a_job_that_waits_in_the_queue_to_restart_says_so_until_the_cycle_gives_a_reason() -> None:
    state = JobState(job("j", 2), Phase.WAITING, submitted=0.0, not_before=90.0)
    gang = GangState(setbacks=Setbacks(count=6, delay=32.0), error="worker-0 was killed")
    summary = folded(Requeued(J, 1, 5.0, 37.0))
    record = record_of(summary, state, gang, None)
    assert (record.status, record.code) == ("waiting", "waiting.restart")
    assert record.reason == "restarts 32 s after 6 losses in a row: worker-0 was killed"
    name_of = names_for(view(cluster(1), [job("j", 1)]), J)
    later = summary.explain(Reason(Code.WAITING_DEVICES), name_of)
    explained = record_of(later, state, gang, None)
    assert explained.code == "waiting.devices"


def test_a_held_job_says_who_holds_it() -> None:
    state = JobState(job("j", 2), Phase.WAITING, submitted=0.0, held_by="ann")
    record = record_of(JobSummary(code="waiting.devices", text="no room"), state, None, None)
    assert (record.status, record.code) == ("waiting", "waiting.held")
    assert record.reason == "held by ann; continue with: muster release"


def test_a_job_that_has_ended_holds_nothing_and_keeps_its_error() -> None:
    summary = folded(Ended(J, 1, Outcome.FAILED, 9.0, "worker-0 ended with exit code 1", 1))
    record = record_of(summary, running(job("j", 2), PLACED), None, Progress(step=7, rate=5.0))
    assert (record.status, record.ended, record.exit_code) == ("failed", 9.0, 1)
    assert record.error == "worker-0 ended with exit code 1"
    assert (record.workers, record.devices, record.nodes, record.rate) == (0, 0, (), None)
    assert record.step == 7


def test_a_success_has_no_error_and_a_cancelled_job_says_who_stopped_it() -> None:
    done = folded(Ended(J, 1, Outcome.SUCCEEDED, 9.0, "an old failure", 0))
    assert (done.outcome, done.error, done.exit_code) == ("succeeded", None, 0)
    stopped = folded(StopAsked(J, 8.0), Cancelled(J, 9.0))
    assert (stopped.outcome, stopped.ended) == ("cancelled", 9.0)
    assert "stopped" in stopped.text


def test_a_reason_is_told_once() -> None:
    reason = Reason(Code.WAITING_DEVICES)
    name_of = names_for(view(cluster(1), [job("j", 1)]), J)
    first = JobSummary().explain(reason, name_of)
    assert (first.code, first.text) == (reason.code.value, tell(reason))
    assert first.explain(Reason(Code.WAITING_DEVICES), name_of) is first


def test_a_restarted_daemon_goes_on_with_the_same_summary() -> None:
    predictions = [PredictionRecord(1.0, "start", 2.0), PredictionRecord(2.0, "finish", 50.0)]
    predictions.append(PredictionRecord(3.0, "finish", 60.0))
    summary = JobSummary(
        started=2.0,
        code="waiting.devices",
        text="no room",
        predicted_finish=60.0,
        first_prediction=predictions[1],
        last_prediction=predictions[2],
        resizes=2,
        preemptions=1,
    )
    state = JobState(job("j", 2), Phase.WAITING, submitted=0.0)
    assert restored_summary(record_of(summary, state, None, None), predictions) == summary
    stopping = JobSummary(stopping=True)
    busy = running(job("j", 2), PLACED)
    assert restored_summary(record_of(stopping, busy, None, None), ()).stopping


def test_how_many_tasks_a_job_asks_for() -> None:
    assert asked(job("j", 4)) == "4"
    assert asked(job("j", 1, most=8)) == "1..8"
    assert asked(job("j", 1, most=8, servers=2)) == "1..8+2"
