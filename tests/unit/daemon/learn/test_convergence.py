"""What is left of a live job by the losses that its tasks report."""

from math import nan

import pytest

from muster.daemon.learn.convergence import LossWatch
from muster.wire.tasks.messages import Captured, StepDone

EACH = 4
"""Steps of an epoch."""


def done(step: int, loss: float, task: str = "worker-0") -> StepDone:
    return StepDone(task, 1, step, (step - 1) // EACH, 8, loss, 0.1, 0.1, 0.0, 0.0)


def loss_at(step: int) -> float:
    """Of the epoch that a step belongs to."""
    return 1 / (0.1 * ((step - 1) // EACH + 1) + 0.8) + 0.2


def watched(steps: int, until: str = "converged 0.5%", most: int = 0) -> LossWatch:
    watch = LossWatch()
    watch.learn(Captured("worker-0", {"samples": 32 * EACH}, 0, 32, until=until, most=most))
    for step in range(1, steps + 1):
        watch.hear(done(step, loss_at(step)))
        watch.hear(done(step, loss_at(step), "worker-1"))
    return watch


def test_steps_left_follow_from_the_losses() -> None:
    found = watched(20 * EACH).left(20 * EACH)
    assert found is not None
    assert found.middle == pytest.approx((34 - 20) * EACH, abs=2 * EACH)


def test_the_interval_shrinks() -> None:
    ends = [watched(n * EACH).ending(n * EACH).epochs for n in (10, 20, 30)]
    widths = [each.high - each.low for each in ends if each is not None]
    assert len(widths) == 3
    assert widths == sorted(widths, reverse=True)


def test_a_resumed_job_has_the_steps_since_its_checkpoint_left_too() -> None:
    watch = watched(20 * EACH)
    now, back = watch.left(20 * EACH), watch.left(12 * EACH)
    assert now is not None and back is not None
    assert back.middle == pytest.approx(now.middle + 8 * EACH, abs=1.0)


def test_a_condition_of_the_scripts_own_or_none_predicts_nothing() -> None:
    for until in ("", "a condition of its own"):
        watch = watched(20 * EACH, until)
        assert watch.left(20 * EACH) is None
        assert watch.ending(20 * EACH).until == until


def test_without_word_of_the_losses_the_most_is_expected() -> None:
    watch = watched(2 * EACH, most=50 * EACH)
    found = watch.left(2 * EACH)
    assert found is not None
    assert found.middle == 48 * EACH
    assert not watch.predicts(2 * EACH)
    assert "5 are needed" in watch.ending(2 * EACH).unknown


def test_a_flat_loss_is_told_of_and_one_that_falls_is_not() -> None:
    watch = watched(20 * EACH, until="")
    assert not watch.converged
    for step in range(20 * EACH + 1, 28 * EACH + 1):
        watch.hear(done(step, loss_at(20 * EACH)))
    assert watch.converged.startswith("loss 0.5571: each of the last 5 epochs")


def test_epochs_repeated_after_a_restart_are_no_convergence() -> None:
    watch = watched(20 * EACH, until="")
    for _ in range(3):
        for step in range(14 * EACH + 1, 20 * EACH + 1):
            watch.hear(done(step, loss_at(step)))
    assert not watch.converged


def test_what_was_seen_survives_a_restart_of_the_daemon() -> None:
    watch = watched(20 * EACH)
    watch.hear(done(20 * EACH + 1, nan))
    again = LossWatch.restored(watch.state())
    for step in range(20 * EACH + 1, 22 * EACH + 1):
        again.hear(done(step, loss_at(step)))
    found = again.left(22 * EACH)
    assert found is not None
    assert found.middle == pytest.approx((34 - 22) * EACH, abs=2 * EACH)


def test_with_a_free_batch_steps_of_the_users_own_batch_are_left() -> None:
    """Of 128 samples each step of 64 is two of the user's own; a sample teaches half as much."""
    watch = LossWatch()
    shape = {"samples": 32 * EACH}
    watch.learn(Captured("worker-0", shape, 0, 32, largest=64, until="converged 0.5%"))
    for step in range(1, 20 * EACH // 2 + 1):
        epoch = (step - 1) // (EACH // 2)
        loss = loss_at(EACH * epoch + 1)
        times = (0.1, 0.1, 0.0, 0.0)
        watch.hear(StepDone("worker-0", 1, step, epoch, 64, loss, *times, batch=64, done=2.0 * step))
    found, taught = watch.left(20 * EACH), watch.left(20 * EACH, 0.5)
    assert found is not None and taught is not None
    assert found.middle == pytest.approx((34 - 20) * EACH, abs=2 * EACH)
    assert taught.middle == found.middle / 2
    again = LossWatch.restored(watch.state())
    assert again.state() == watch.state()
