"""How long a step takes, measured over windows of reports."""

import pytest

from muster.daemon.learn.window import ENOUGH_STEPS, LONGEST, SKIPPED, Window
from muster.wire.tasks.messages import StepDone


def done(step: int, seconds: float, task: str = "worker-0", wait: float = 0.0) -> StepDone:
    half = (seconds - wait) / 2
    return StepDone(task, 1, step, 0, 8, 1.0, half, half, wait, wait, seconds)


def test_the_first_steps_do_not_count() -> None:
    window = Window(1)
    for step in range(1, SKIPPED + 1):
        assert window.add(done(step, 100.0)) is None
    found = [window.add(done(step, 0.1)) for step in range(SKIPPED + 1, SKIPPED + 2 + ENOUGH_STEPS)]
    assert [report for report in found if report] == [found[-1]]
    assert found[-1] is not None
    assert found[-1].step == pytest.approx(0.1)


def test_slow_steps_are_measured_after_seconds_instead() -> None:
    window = Window(1)
    reports = [window.add(done(step, 3.0)) for step in range(1, SKIPPED + 3)]
    assert reports[-1] is not None
    assert reports[-1].step == 3.0


def test_windows_grow_to_the_longest() -> None:
    window, since, spans = Window(1), 0.0, []
    for step in range(1, 2_000):
        since += 0.5
        if window.add(done(step, 0.5)) is not None:
            spans.append(since)
            since = 0.0
    assert spans[1:5] == [5.0, 10.0, 20.0, 40.0]
    assert set(spans[5:]) == {LONGEST}


def test_waiting_for_each_other_is_synchronising() -> None:
    window, reports = Window(1), []
    for step in range(1, 20):
        for task, wait in (("worker-0", 0.0), ("worker-1", 0.4)):
            reports.append(window.add(done(step, 1.0, task, wait)))
    report = next(each for each in reports if each)
    assert report.step == pytest.approx(1.0)
    assert report.sync == pytest.approx(0.2)


def test_a_worker_alone_synchronises_with_nobody() -> None:
    window = Window(1)
    reports = [window.add(done(step, 1.0, wait=0.4)) for step in range(1, 20)]
    assert {each.sync for each in reports if each} == {0.0}


def test_asynchronous_workers_do_steps_of_their_own_at_a_time() -> None:
    window, reports = Window(1, asynchronous=True), []
    for step in range(1, 60):
        reports.append(window.add(done(step, 1.0, f"worker-{step % 2}")))
    # Each takes a second for a step, and two of them do two in that time.
    assert [each.step for each in reports if each][-1] == pytest.approx(0.5, rel=0.05)


def test_reports_without_samples_or_time_tell_nothing() -> None:
    window = Window(1)
    for step in range(1, 30):
        assert window.add(StepDone("worker-0", 1, step, 0, 0, 1.0, 1.0, 1.0, 0.0, 0.0, 9.0)) is None
        assert window.add(StepDone("worker-0", 1, step, 0, 8, 1.0, 0.0, 0.0, 0.0, 0.0)) is None
