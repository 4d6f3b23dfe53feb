"""What a policy is told to aim at: for the cluster, or for a pool of its own."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from muster.core.cycle.sections import check_policies, policies_of
from muster.model.outlook import Outlook
from muster.model.pool import Pool, PoolTree
from muster.policy.muster import Muster
from muster.policy.registry import POLICIES, PolicyError
from muster.sim.scenario.configuration import Configuration
from muster.sim.scenario.prepare import prepare, run_prepared
from tests import builders
from tests.unit.policy.test_muster import EIGHT, LINEAR, ROOT_LAW, ask, counts, job
from tests.unit.sim.small import cluster_file, trace_file


def aiming(aim: str) -> Muster:
    found = POLICIES.find(f"muster:aim={aim}")
    assert isinstance(found, Muster)
    return found


def test_an_aim_is_a_name_for_values_of_options() -> None:
    assert replace(aiming("makespan"), name="muster") == Muster(makespan=1.0)
    assert replace(aiming("balanced"), name="muster") == Muster()
    later = POLICIES.find("muster:aim=makespan,makespan=0.6")
    assert replace(later, name="muster") == Muster(makespan=0.6)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "muster:aim=speed",
            "muster has no aim 'speed'; aims: balanced, mean, fair, makespan, per_device",
        ),
        ("fifo:aim=mean", "fifo has no aim 'mean', nor any other"),
    ],
)
def test_an_aim_that_a_policy_does_not_have_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(problem)):
        POLICIES.find(text)


def test_per_device_gives_no_job_devices_that_do_less_than_its_first() -> None:
    view = builders.view(EIGHT, [job("a")])
    for speed, balanced, thrifty in ((ROOT_LAW, 8, 1), (LINEAR, 8, 8)):
        outlooks = {"a": Outlook(1000.0, speed)}
        assert counts(ask(view, outlooks)) == {"a": balanced}
        assert counts(ask(view, outlooks, policy=aiming("per_device"))) == {"a": thrifty}
    # With k^-1/2 of a device's most, at least a half is done by each of up to four.
    outlooks = {"a": Outlook(1000.0, ROOT_LAW)}
    assert counts(ask(view, outlooks, policy=Muster(thrift=0.5))) == {"a": 4}


def test_a_pools_aim_is_that_of_its_policy_wherever_that_is_named() -> None:
    tree = PoolTree(
        {
            "lab": Pool("lab", policy="muster:makespan=0.3", aim="fair"),
            "vision": Pool("vision", "lab"),
            "speech": Pool("speech", "lab", aim="mean"),
            "course": Pool("course", "lab", policy="fifo"),
            "ops": Pool("ops", aim="makespan"),
        }
    )
    assert {name: tree.policy_of(name, "muster") for name in tree.pools} == {
        "lab": "muster:makespan=0.3,aim=fair",
        "vision": "muster:makespan=0.3,aim=fair",
        "speech": "muster:makespan=0.3,aim=mean",
        "course": "fifo",
        "ops": "muster:aim=makespan",
    }
    check_policies(tree, "muster")
    with pytest.raises(PolicyError, match="pool 'ops': fifo has no aim 'makespan'"):
        check_policies(tree, "fifo")


def test_an_aim_that_a_pool_had_before_a_change_is_told_how_to_lift() -> None:
    before = PoolTree({"lab": Pool("lab", aim="fair"), "ops": Pool("ops", "lab")})
    after = PoolTree({**before.pools, "lab": Pool("lab", policy="fifo", aim="fair")})
    problem = "pool 'ops': fifo has no aim 'fair', nor any other"
    with pytest.raises(PolicyError, match=f"^{problem}; muster pool set lab --aim none lifts it$"):
        check_policies(after, "muster", before)
    new = PoolTree({**before.pools, "ops": Pool("ops", "lab", policy="fifo", aim="mean")})
    with pytest.raises(PolicyError, match=r"^pool 'ops': fifo has no aim 'mean', nor any other$"):
        check_policies(new, "muster", before)


def test_an_aim_that_was_meant_for_another_policy_stops_no_cycle() -> None:
    (policy,) = policies_of(PoolTree({"ops": Pool("ops", aim="makespan")}), POLICIES["fifo"])
    assert policy == POLICIES["fifo"]


def test_two_pools_of_one_policy_pursue_each_its_own_aim(tmp_path: Path) -> None:
    """Each pool has one device, and jobs of 1,000 s and 100 s that were submitted together."""
    pools = "pools:\n  quick: {reservation: 1, limit: 1, aim: mean}\n"
    pools += "  nightly: {reservation: 1, limit: 1, aim: makespan}\n"
    cluster = cluster_file(tmp_path, devices=2, pools=pools)
    rows = [f"0,1,{seconds},{pool}" for pool in ("quick", "nightly") for seconds in (1000, 100)]
    trace = trace_file(tmp_path, *rows, heading="submitted,devices,duration,pool")
    asked = Configuration(
        cluster=str(cluster), trace=str(trace), policy="muster", pause=0.0, oracle=True
    )
    result = run_prepared(prepare(asked))
    first = {each.pool: each.run for each in result.records if each.started == 0.0}
    assert first == {"quick": 100.0, "nightly": 1000.0}
