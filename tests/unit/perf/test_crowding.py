"""What is learnt of neighbours reaches the policy's speeds."""

import pytest

from muster.model.outlook import Outlook, Table
from muster.perf.history.crowding import among_neighbours

FAST = Outlook(100.0, Table((1.0, 2.0)))


def test_those_that_wait_are_expected_to_fare_as_those_that_run() -> None:
    found = among_neighbours({1: FAST, 2: FAST, 3: FAST}, {1: 1.4, 2: 1.0})
    assert [found[job].slowed for job in (1, 2, 3)] == pytest.approx([1.4, 1.0, 1.2])


def test_where_nobody_slows_anybody_nothing_changes() -> None:
    outlooks = {1: FAST}
    assert among_neighbours(outlooks, {}) is outlooks
    assert among_neighbours(outlooks, {1: 1.001}) is outlooks
