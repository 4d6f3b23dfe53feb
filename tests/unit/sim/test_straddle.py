"""Jobs that may have several device types, under every policy: none waits for ever."""

from typing import Any

import pytest

from muster.model.cluster import Cluster
from muster.model.pool import single_pool
from muster.policy.registry import POLICIES
from muster.sim.engine import Setting
from muster.sim.scenario.run import simulate
from muster.sim.truth import Arrival
from muster.sim.worlds.power import PowerLaw
from tests import builders

EVERY = pytest.mark.parametrize("policy", sorted(POLICIES))


def two_types(devices: int = 2) -> Cluster:
    """As many devices of each of two types."""
    sets = (
        builders.node_set(
            each.lower(), device_type=each, devices=devices, sockets=1, switches=1, generation=each
        )
        for each in ("T4", "A100")
    )
    return builders.mixed(*((1, each) for each in sets))


def arrives(at: float, name: str, gang: int, number: int, **fields: Any) -> Arrival:
    """A job of 1,000 s."""
    job = builders.job(name, gang, pause=1.0, number=number, **fields)
    return Arrival(at, job, PowerLaw(1_000.0))


def ends(policy: str, reserved: dict[str, int], *arrivals: Arrival) -> dict[str, float]:
    """When each job ends; infinity: never."""
    setting = Setting(two_types(), single_pool(reserved), POLICIES[policy])
    result = simulate(setting, arrivals)
    return {each.name: each.ended or float("inf") for each in result.records}


@EVERY
@pytest.mark.parametrize("preemptible", [True, False])
def test_a_gang_that_no_type_holds_alone_runs_on_both(policy: str, preemptible: bool) -> None:
    wide = arrives(0.0, "wide", 4, 1, same_generation=False, preemptible=preemptible)
    assert ends(policy, {"T4": 2, "A100": 2}, wide)["wide"] < 1_100


@EVERY
@pytest.mark.parametrize("preemptible", [True, False])
def test_such_a_gang_gets_its_turn_among_smaller_jobs(policy: str, preemptible: bool) -> None:
    small = [arrives(500.0 * i, f"small-{i}", 1, i + 2) for i in range(16)]
    wide = arrives(100.0, "wide", 4, 1, same_generation=False, preemptible=preemptible)
    found = ends(policy, {"T4": 2, "A100": 2}, *sorted([wide, *small], key=lambda each: each.at))
    assert found["wide"] < 8_000
    assert max(found.values()) < 20_000


@EVERY
@pytest.mark.parametrize("same", [True, False])
def test_a_job_that_is_not_preemptible_gets_the_type_that_its_pool_reserves(
    policy: str, same: bool
) -> None:
    others = [arrives(0.0, f"other-{i}", 1, i + 2) for i in range(8)]
    fixed = arrives(10.0, "fixed", 1, 1, same_generation=same, preemptible=False)
    found = ends(policy, {"T4": 1}, *others, fixed)
    assert found["fixed"] < 4_000
