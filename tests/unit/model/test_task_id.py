"""The printed id of a task names exactly one task."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.job import Role
from muster.model.task import TaskId

WHOLE = st.integers(0, 10**18 - 1)


@given(st.builds(TaskId, WHOLE, WHOLE, st.sampled_from(Role), WHOLE, WHOLE))
def test_an_id_survives_being_printed(task: TaskId) -> None:
    assert TaskId.parse(str(task)) == task


@pytest.mark.parametrize(
    "text",
    ["", "7", "7/1/worker", "7/1/boss-0", "7/1/worker-0.0", "07/1/worker-0", "7/1/worker-0\n",
     "../1/worker-0", "7/1/worker-0/..", "-7/1/worker-0", "٧/1/worker-0", "7/1/worker-" + "9" * 19],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the id of a task"):
        TaskId.parse(text)


@given(st.text())
def test_what_is_read_is_spelled_as_it_was(text: str) -> None:
    try:
        task = TaskId.parse(text)
    except ValueError:
        return
    assert str(task) == text
