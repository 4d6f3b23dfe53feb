"""What must hold while nodes join, change, leave, are lost and return: each test is one sentence."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from muster.core.cycle.cycle import Cycle
from muster.model.cluster import NodeState
from muster.policy.base import Policy
from muster.policy.published.fifo import Fifo
from muster.policy.registry import POLICIES
from tests.prop.test_standing import Whim
from tests.prop.worlds import History, open_histories

EVERY = settings(max_examples=30, deadline=None, derandomize=True, database=None)
FEW = settings(EVERY, max_examples=8)


@given(open_histories())
@EVERY
def test_each_device_of_a_node_that_is_there_is_free_or_held_once(history: History) -> None:
    for frame in history.play(history.world()):
        cluster = frame.after.cluster
        held = dict.fromkeys(cluster.index, 0)
        for state in frame.after.jobs.values():
            for slot in set(state.held()):
                assert held[slot.node] & slot.bits == 0
                held[slot.node] |= slot.bits
        for node in cluster.nodes:
            whole = cluster.configuration_of(node).all_devices
            free = 0 if node.state is NodeState.LOST else whole & ~held[node.name]
            assert node.free == free


@given(open_histories())
@EVERY
def test_devices_are_counted_as_if_they_were_counted_afresh(history: History) -> None:
    for frame in history.play(history.world()):
        cluster = frame.after.cluster
        assert cluster.present() == replace(cluster).present()


def follows(history: History, policy: Policy) -> None:
    """Every cycle of the world, checked there, is decided again by one that keeps its standing."""
    world = history.world()
    world.policy = policy
    warm = Cycle(policy)
    for frame in history.play(world):
        assert warm.decide(frame.before, frame.now, frame.memory) == frame.decided


@given(open_histories())
@EVERY
def test_a_queue_is_followed(history: History) -> None:
    follows(history, Fifo())


@given(open_histories())
@EVERY
def test_steering_is_followed(history: History) -> None:
    follows(history, Whim())


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_decides_soundly(name: str) -> None:
    @given(open_histories(cycles=10))
    @FEW
    def holds(history: History) -> None:
        follows(history, POLICIES[name])

    holds()
