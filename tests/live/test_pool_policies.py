"""Four pools with four policies under one daemon, with planners in processes of their own."""

import os
import signal

from tests.live.conftest import Make
from tests.live.daemons import Daemon, processes, until

POLICIES = {"ops": "fifo", "research": "muster", "batch": "tiresias", "course": "srtf"}


def planners(daemon: Daemon) -> set[int]:
    """The processes of its planners."""
    found = processes(str(daemon.home))
    return {pid for pid, command in found.items() if "muster.daemon.planners" in command}


def test_four_pools_with_four_policies_share_a_daemon_and_outlive_a_planner(make: Make) -> None:
    daemon: Daemon = make("--planners", "2", devices=4)
    daemon.start()
    daemon.client.set_pool("default", quotas={"cpu": {"reservation": 0}})
    for pool, policy in POLICIES.items():
        daemon.client.set_pool(pool, quotas={"cpu": {"reservation": 1}}, policy=policy)
    for pool in POLICIES:
        for turn in range(2):
            daemon.sh("sleep 0.2", name=f"{pool}-{turn}", pool=pool)
    for pool, policy in POLICIES.items():
        daemon.await_status(f"{pool}-0", "succeeded")
        daemon.await_status(f"{pool}-1", "succeeded")
        assert daemon.detail(f"{pool}-0").policy == policy
    decided_by = {pool.name: pool.policy for pool in daemon.client.pools()}
    assert decided_by == {**POLICIES, "default": "muster"}

    daemon.client.set_pool("research", aim="makespan")
    daemon.client.set_pool("course", policy="muster:thrift=0.5")
    victim = until(lambda: planners(daemon), "planners run").pop()
    os.kill(victim, signal.SIGKILL)
    for pool in POLICIES:
        daemon.sh("true", name=f"{pool}-after", pool=pool)
    for pool in POLICIES:
        daemon.await_status(f"{pool}-after", "succeeded")
    assert daemon.detail("research-after").policy == "muster:aim=makespan"
    assert daemon.detail("course-after").policy == "muster:thrift=0.5"
    until(lambda: len(planners(daemon)) == 2 and victim not in planners(daemon), "it was replaced")
    daemon.clear()
    assert daemon.stop() == 0
    until(lambda: not planners(daemon), "planners end with the daemon")
