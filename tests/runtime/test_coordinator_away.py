"""The coordinator is stopped and started again: training does not notice, and tells all of it later."""

from pathlib import Path

from tests.runtime.scripts.jobs import LONG, Job

ENDLESS = ("--epochs", "100000", "--pace", "0.01")


def wait_checkpoints(folder: Path, job: Job, newer: int) -> None:
    """Until training has written a checkpoint that far ahead, whoever listens."""
    goal = job.history.step + newer
    while not any(int(file.stem[5:]) >= goal for file in folder.glob("step-*.pt")):
        assert job.pids
        job.watch(lambda _: False, 0.05)


def test_training_goes_on_and_reports_later(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    with Job(tmp_path, *ENDLESS, "--checkpoint", str(saved), workers=2) as job:
        job.ahead(5)
        pids = job.pids
        job.stop_coordinator()
        known = job.history.step
        wait_checkpoints(saved, job, 30)
        assert job.history.step == known
        job.start_coordinator()
        job.wait_step(known + 30, LONG)
        job.change(3)  # and its orders count again
        job.ahead(5)
        assert {task: job.pids[task] for task in pids} == pids
        outcome = job.end()
    assert [c.cause for c in outcome.history.changes] == ["start", "plan"]
    last = outcome.history.step
    for task in ("worker-0", "worker-1"):
        # Each step of each, though nobody listened to many of them.
        assert sorted({d.step for d in job.record.done if d.task == task}) == list(range(1, last + 1))


def test_a_worker_dies_meanwhile(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    with Job(tmp_path, *ENDLESS, "--checkpoint", str(saved), workers=3) as job:
        job.ahead(5)
        job.stop_coordinator()
        job.kill("worker-0")
        wait_checkpoints(saved, job, 30)
        job.resize(2)
        job.start_coordinator()
        job.wait_members(2, LONG)
        job.ahead(5)
        outcome = job.end()
    assert outcome.history.lost == {"worker-0": "signal 9"}
    assert outcome.history.changes[-1].members == ("worker-1", "worker-2")
    assert sorted(outcome.history.losses) == list(range(1, outcome.history.step + 1))


def test_the_training_ends_meanwhile(tmp_path: Path) -> None:
    with Job(tmp_path, "--epochs", "20", "--pace", "0.01", workers=2) as job:
        job.ahead(5)
        job.stop_coordinator()
        job.release()
        job.start_coordinator()
        outcome = job.finish()
    assert sorted(outcome.history.losses) == list(range(1, 81))
