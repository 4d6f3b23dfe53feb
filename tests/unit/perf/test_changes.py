"""What changes cost, learnt apart: a resize and a start."""

import pytest

from muster.perf.learnt.changes import ChangeCosts, ChangeKind


def test_a_resize_and_a_start_are_known_apart() -> None:
    changes = ChangeCosts()
    changes.add(1, "net", ChangeKind.RESIZE, 0.05)
    changes.add(1, "net", ChangeKind.START, 12.0)
    assert changes.cost(1, "net", ChangeKind.RESIZE) == pytest.approx(0.05)
    assert changes.cost(1, "net", ChangeKind.START) == pytest.approx(12.0)


def test_a_job_that_was_never_changed_is_like_its_application() -> None:
    changes = ChangeCosts()
    changes.add(1, "net", ChangeKind.START, 12.0)
    assert changes.cost(2, "net", ChangeKind.START) == pytest.approx(12.0)
    assert changes.cost(2, "net", ChangeKind.RESIZE) is None


def test_a_start_of_an_application_never_seen_is_like_those_of_others() -> None:
    changes = ChangeCosts()
    assert changes.cost(2, "new", ChangeKind.START) is None
    changes.add(1, "net", ChangeKind.START, 12.0)
    changes.add(1, "net", ChangeKind.RESIZE, 0.05)
    assert changes.cost(2, "new", ChangeKind.START) == pytest.approx(12.0)
    assert changes.cost(2, "new", ChangeKind.RESIZE) is None  # not every training is resized live


def test_its_own_changes_count_before_those_of_its_application() -> None:
    changes = ChangeCosts()
    changes.add(1, "net", ChangeKind.START, 2.0)
    for _ in range(5):
        changes.add(2, "net", ChangeKind.START, 30.0)
    assert changes.cost(1, "net", ChangeKind.START) == pytest.approx(2.0)
    changes.forget(1)
    assert changes.cost(1, "net", ChangeKind.START) == pytest.approx(30.0, rel=0.1)


@pytest.mark.parametrize("wrong", [120.0, 0.0])
def test_one_odd_measurement_is_forgotten(wrong: float) -> None:
    changes = ChangeCosts()
    changes.add(1, "net", ChangeKind.RESIZE, wrong)
    for _ in range(8):
        changes.add(1, "net", ChangeKind.RESIZE, 0.1)
    assert changes.cost(1, "net", ChangeKind.RESIZE) == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize("nonsense", [-1.0, float("nan"), float("inf")])
def test_what_cannot_be_is_ignored(nonsense: float) -> None:
    changes = ChangeCosts()
    changes.add(1, "net", ChangeKind.RESIZE, nonsense)
    assert changes.cost(1, "net", ChangeKind.RESIZE) is None
