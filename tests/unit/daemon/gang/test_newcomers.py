"""Newcomers that fail: the job that they were to join goes on."""

from typing import Any

import pytest

from muster.model.event import Ended, Reshaped
from tests.unit.daemon.rig import THREE, live


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"code": 1}, "the last line"),  # an import, or a file that this node lacks
        ({"code": None, "number": 11}, "the last line"),
        ({"code": None, "number": 9, "oom": True, "memory": 2_000_000_000}, "limit 2 GB"),
        ({"code": None, "number": 9, "oom": True}, "the machine has none left"),
    ],
)
def test_newcomers_that_end_without_a_word_leave_the_job_at_its_size(
    how: dict[str, Any], said: str
) -> None:
    rig = live()
    rig.resize(THREE)
    for number in (2, 3, 4):
        assert f"worker-{number}" in rig.names
        rig.end(f"worker-{number}", **how)
    assert not rig.kinds(Ended)
    assert rig.names == {"worker-0", "worker-1"}
    assert (rig.gang.failures, rig.gang.setbacks.losses) == (0, 0)
    (reshaped,) = rig.kinds(Reshaped)
    assert isinstance(reshaped, Reshaped)
    assert reshaped.why.startswith("3 workers in a row failed before their first step: worker-4: ")
    assert said in reshaped.why
