"""Points of curves on their way to the store: few, spread evenly, and the last of each job."""

from math import inf

from muster.daemon.learn import Beliefs
from muster.daemon.timeline.curve_keeper import POINTS, UNWRITTEN, CurveKeeper


def keeper() -> CurveKeeper:
    return CurveKeeper(Beliefs({"cpu": 4}))


def test_the_workers_of_a_step_make_one_point() -> None:
    kept = keeper()
    for step in (1, 1, 1, 2, 2, 2):
        kept.hear_step(7, step, 0.5 / step, float(step))
    assert [(p.number, p.what, p.step, p.value) for p in kept.take(())] == [
        (7, "loss", 1, 0.5),
        (7, "loss", 2, 0.25),
    ]
    assert kept.take(()) == (), "each is handed out once"


def test_a_long_training_offers_ever_fewer_points() -> None:
    kept, steps = keeper(), 64 * POINTS + 1
    for step in range(steps):
        kept.hear_step(1, step, 1.0, float(step))
    found = kept.take(())
    assert len(found) < 8 * POINTS
    assert kept.latest(1)[0].step == steps - 1, "the last one is known while it lives"
    assert kept.take([1])[-1].step == steps - 1, "and stored when it ends"
    kept.forget(1)
    assert kept.latest(1) == []


def test_numbers_that_no_store_can_hold_are_left_out() -> None:
    kept = keeper()
    kept.hear_step(1, 1, inf, 0.0)
    kept.hear_metrics(1, {"accuracy": inf, "f1": 0.5}, 3, 0.0)
    assert [(p.what, p.step, p.value) for p in kept.take(())] == [("f1", 3, 0.5)]


def test_what_could_not_be_written_is_kept_within_bounds() -> None:
    kept = keeper()
    for step in range(10):
        kept.hear_step(1, step, 1.0, float(step))
    points = kept.take(())
    kept.hear_step(1, 10, 1.0, 10.0)
    kept.give_back(points)
    assert [p.step for p in kept.take(())] == list(range(11))
    for number in range(UNWRITTEN + 10):
        kept.hear_step(number, 1, 1.0, 0.0)
    assert len(kept.take(())) == UNWRITTEN
