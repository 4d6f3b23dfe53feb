"""Workers that stay slow are told of once."""

from muster.runtime.members.stragglers import StragglerWatch

WELL = {"a": 0.01, "b": 0.01, "c": 0.011}
SLOW = WELL | {"a": 0.03}


def steps(watch: StragglerWatch, rates: dict[str, float], count: int) -> list[tuple[str, float]]:
    return [news for _ in range(count) for news in watch.note(rates)]


def test_a_worker_that_stays_slow_is_told_of_once_with_its_factor() -> None:
    watch = StragglerWatch(patience=5)
    assert steps(watch, SLOW, 4) == []
    # 0.03 over the median of 0.01 and 0.011.
    ((task, factor),) = steps(watch, SLOW, 1)
    assert task == "a"
    assert round(factor, 3) == round(0.03 / 0.0105, 3)
    assert steps(watch, SLOW, 50) == []


def test_a_burst_is_not_told_of() -> None:
    watch = StragglerWatch(patience=5)
    for _ in range(10):
        assert steps(watch, SLOW, 4) == []
        assert steps(watch, WELL, 1) == []


def test_slow_by_less_than_the_factor_is_not_told_of() -> None:
    assert steps(StragglerWatch(patience=3), WELL | {"a": 0.02}, 50) == []


def test_it_is_told_of_again_only_after_it_has_recovered() -> None:
    watch = StragglerWatch(patience=5)
    assert len(steps(watch, SLOW, 10)) == 1
    assert steps(watch, WELL, 1) == []
    assert steps(watch, SLOW, 10) == []
    assert steps(watch, WELL, 5) == []
    assert len(steps(watch, SLOW, 10)) == 1


def test_of_two_workers_the_slow_one_is_told_of() -> None:
    assert [task for task, _ in steps(StragglerWatch(patience=2), {"a": 1.0, "b": 3.0}, 5)] == ["b"]


def test_one_worker_alone_is_never_slow() -> None:
    assert steps(StragglerWatch(patience=1), {"a": 9.0}, 5) == []


def test_a_worker_without_a_measurement_is_left_out() -> None:
    watch = StragglerWatch(patience=2)
    assert steps(watch, {"a": 3.0, "b": 1.0, "c": float("nan"), "d": 0.0}, 2) == [("a", 3.0)]


def test_a_task_that_left_starts_anew_under_its_name() -> None:
    watch = StragglerWatch(patience=3)
    assert steps(watch, SLOW, 2) == []
    assert steps(watch, {"b": 0.01, "c": 0.01}, 1) == []
    assert steps(watch, SLOW, 2) == []
    assert len(steps(watch, SLOW, 1)) == 1
