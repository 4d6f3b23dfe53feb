"""A job's plan: decided by the cycle, shown, followed by the training, and changed while it trains."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.wire.api.records import PlanRecord
from support.netns import NoNetworkError, check
from tests.live.conftest import Make
from tests.live.daemons import Daemon, until
from tests.live.hosts import Lab, lab
from tests.live.steps import Training

pytest.importorskip("torch")

NAMES, RATES = ("fast1", "fast2", "fast3", "slow1"), (200.0, 200.0, 200.0, 110.0)
RULES = """
rules:
- match: {name: fast*}
  nic: {bandwidth: 190Mbit/s, latency: 100us}
- match: {name: slow*}
  nic: {bandwidth: 105Mbit/s, latency: 100us}
"""
WIDE = ("--inputs", "500000")
"""2 MB of gradients: 0.1 s in a ring of fast links."""


def plan_of(daemon: Daemon, name: str) -> PlanRecord | None:
    return daemon.detail(name).plan


def test_a_plan_is_decided_shown_and_held_against_measured_steps(make: Make) -> None:
    daemon = make(devices=2)
    daemon.start()
    training = Training(daemon, "planned", devices=2)
    plan = until(lambda: plan_of(daemon, "planned"), "a plan is decided")
    assert (plan.sync, plan.runner_up) == ("ring", "sharded")
    assert 0 < plan.predicted <= plan.runner_up_predicted
    until(lambda: (plan_of(daemon, "planned") or plan).measured, "its steps are measured")
    page = daemon.muster("show", "planned").stdout
    assert "plan      ring, predicted" in page
    assert "sharded over the workers would take" in page
    assert "of the prediction" in page
    training.finish()
    assert daemon.record("planned").resizes == 0, "no task has changed"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Lab]:
    try:
        check()
    except NoNetworkError as problem:
        pytest.skip(str(problem))
    rules = tmp_path / "cluster.yaml"
    rules.write_text(RULES, encoding="utf-8")
    options = ("--policy", "fifo", "--cluster", str(rules))
    with lab(tmp_path / "lab", NAMES, *options, rates=RATES) as made:
        yield made


@pytest.mark.slow
def test_a_plan_changes_when_a_slow_link_is_all_that_is_left(hosts: Lab) -> None:
    hosts.start("fast1", "fast2", "fast3", devices=1)
    daemon = hosts.daemon
    training = Training(daemon, "grown", *WIDE, devices="3..4")
    training.await_workers(3)
    plan = until(lambda: plan_of(daemon, "grown"), "a plan is decided")
    assert (plan.sync, plan.owners) == ("ring", ())
    training.ahead()

    # The only host left for another worker has a slow link: it owns next to no parameters.
    hosts.start("slow1", devices=1)
    training.await_workers(4)
    assert "slow1" in daemon.record("grown").nodes

    def shared() -> PlanRecord | None:
        plan = plan_of(daemon, "grown")
        return plan if plan is not None and plan.sync == "sharded" else None

    plan = until(shared, "the workers own the parameters")
    assert (len(plan.owners), plan.runner_up) == (4, "ring")
    assert min(plan.owners) < 0.1
    training.ahead()
    training.finish()  # every step once, on one model
    record = daemon.record("grown")
    assert (record.resizes, record.preemptions, record.losses, record.failures) == (1, 0, 0, 0)
