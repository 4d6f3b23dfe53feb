"""What makes a node unfit for tasks."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.executors.health import read_health, recovered, unhealthy
from muster.wire.records import NodeHealth

GPU = {
    "temperature": 61,
    "power": 412.5,
    "used": 0.97,
    "clock": 0.99,
    "slowed": [],
    "ecc": 0,
    "xid": 31,
}
"""Xid 31 is an error of a program."""
WELL: dict[str, Any] = {
    "load": 3.5,
    "memory": {"free": 10**11, "total": 10**12},
    "disk": {"free": 10**11, "total": 10**12},
    "devices": [GPU] * 2,
}


def test_a_node_is_well_unless_something_says_otherwise() -> None:
    health = read_health(WELL, age=2.0)
    assert unhealthy(health) == ""
    assert (health.temperature, health.ecc, health.load, health.age) == (61.0, 0, 3.5, 2.0)
    assert (health.disk_free, health.memory_total) == (10**11, 10**12)
    assert unhealthy(NodeHealth()) == ""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"devices": [GPU, {"xid": 79}]}, "device 1 reported Xid 79 (fallen off the bus)"),
        ({"devices": [{"xid": 94}]}, "device 0 reported Xid 94 (contained memory error)"),
        ({"devices": [GPU, {"ecc": 2}]}, "device 1 has 2 uncorrected memory errors"),
        (
            {"devices": [{"temperature": 95, "slowed": ["hardware", "heat"]}]},
            "device 0 is so hot that its hardware slows it down",
        ),
        ({"disk": {"free": 400_000_000}}, "its disk is full (less than 512 MB free)"),
        ({"devices": [{"ecc": 1}], "disk": {"free": 0}}, "device 0 has 1 uncorrected memory error"),
    ],
)
def test_broken_devices_heat_and_a_full_disk_are_reasons(said: dict[str, Any], why: str) -> None:
    assert unhealthy(read_health(WELL | said)) == why


def test_only_a_full_disk_recovers_by_itself() -> None:
    full = unhealthy(NodeHealth(disk_free=0))
    assert not recovered(full, NodeHealth(disk_free=600_000_000)), "not at the very limit"
    assert recovered(full, NodeHealth(disk_free=2 * 10**9))
    assert not recovered(unhealthy(read_health({"devices": [{"ecc": 1}]})), read_health(WELL))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=20)
        | st.dictionaries(st.sampled_from([*GPU, "free"]), inner, max_size=3)
    ),
    max_leaves=60,
)
KEYS = st.sampled_from([*WELL, *GPU, "free", "total"]) | st.text(max_size=3)


@given(st.dictionaries(KEYS, json_values, max_size=12))
def test_whatever_an_agent_says_is_read_within_bounds(said: dict[str, object]) -> None:
    health = read_health(said)
    assert len(health.devices) <= 16
    assert all(len(word) <= 40 for device in health.devices for word in device.slowed)
    assert "\n" not in unhealthy(health)
    json.dumps(asdict(health), allow_nan=False)
