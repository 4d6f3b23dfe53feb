"""What makes a node unfit for tasks."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.executors.health import read_health, recovered, unhealthy
from muster.wire.api.records import NodeHealth

WELL = NodeHealth(
    temperature=61.0,
    slowdown=93.0,
    xids=(13, 31),
    disk_free=10**11,
    memory_free=10**11,
    load=3.5,
)
"""Xids 13 and 31 are errors of programs."""


def test_a_node_is_well_unless_something_says_otherwise() -> None:
    assert unhealthy(WELL) == ""
    assert unhealthy(NodeHealth()) == ""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"xids": [31, 79]}, "a device reported Xid 79 (fallen off the bus)"),
        ({"xids": [94]}, "a device reported Xid 94 (contained memory error)"),
        ({"ecc": 2}, "devices have 2 uncorrected memory errors"),
        (
            {"temperature": 95, "slowdown": 93},
            "a device is hotter than 93 °C, where it slows itself down",
        ),
        ({"disk_free": 400_000_000}, "its disk is full (less than 512 MB free)"),
        ({"ecc": 1, "disk_free": 0}, "devices have 1 uncorrected memory error"),
    ],
)
def test_broken_devices_heat_and_a_full_disk_are_reasons(said: dict[str, object], why: str) -> None:
    assert unhealthy(read_health(said)) == why


def test_only_a_full_disk_recovers_by_itself() -> None:
    full = unhealthy(NodeHealth(disk_free=0))
    assert not recovered(full, NodeHealth(disk_free=600_000_000)), "not at the very limit"
    assert recovered(full, NodeHealth(disk_free=2 * 10**9))
    assert not recovered(unhealthy(NodeHealth(ecc=1)), WELL)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=60,
)
FIELDS = list(NodeHealth.__dataclass_fields__)


@settings(max_examples=25)
@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(), json_values, max_size=12))
def test_whatever_an_agent_says_is_read_within_bounds(said: dict[str, object]) -> None:
    health = read_health(said)
    assert len(health.xids) <= 32
    assert len(health.throttled) <= 120
    assert "\n" not in unhealthy(health)
    json.dumps([health.temperature, health.load, health.disk_free, health.ecc], allow_nan=False)


def test_an_agent_tells_how_busy_its_devices_are_and_nonsense_is_unknown() -> None:
    assert read_health({"busy": [0.5, 2.0, "x", None]}).busy == (0.5, None, None, None)
    assert read_health({"busy": "all"}).busy == ()
