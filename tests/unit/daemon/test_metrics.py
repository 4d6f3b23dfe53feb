"""What `/metrics` says, read back as Prometheus reads it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.daemon.metrics import Metrics
from muster.model.cluster import NodeState, fragmentation
from muster.model.job import Job
from muster.model.offer import NodeOffer
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.view import JobState, View
from muster.policy.registry import POLICIES
from muster.wire.api.records import NodeHealth
from tests.builders import cluster, job, mixed, node_set, placement, running, taken, view
from tests.numbers import number

PAGE = Path(__file__).parents[3] / "docs/reference/metrics.md"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(metrics: Metrics) -> Samples:
    """Every sample by its name and labels; each only once."""
    found: Samples = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        assert family.documentation
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, tuple(sorted(labels.items()))))


def decided(asked: View) -> Decisions:
    return Cycle(POLICIES["fifo"]).decide(asked, 0.0, Memory())


@pytest.fixture
def busy() -> View:
    """Two nodes of eight: a job on three devices of the first, and one that wants all sixteen."""
    pools = PoolTree(
        {
            "lab": Pool("lab", quotas={"A100": Quota(reservation=8)}),
            "vision": Pool("vision", "lab", {"A100": Quota(reservation=2)}),
            "text": Pool("text", "lab"),
        }
    )
    jobs: list[Job | JobState] = [
        running(job("small", 3, pool="vision", preemptible=False), placement(*_bits("n0", 3))),
        job("large", 16, pool="text"),
    ]
    return view(cluster(2), jobs, pools)


def _bits(node: str, count: int) -> list[tuple[str, int]]:
    return [(node, 1 << bit) for bit in range(count)]


def test_nothing_has_happened_yet() -> None:
    samples = read(Metrics())
    assert value(samples, "muster_wait_seconds_count") == 0
    assert value(samples, "muster_submissions_total") == 0
    assert not any(name.endswith("_created") for name, _ in samples)


def test_what_happens_is_counted() -> None:
    metrics = Metrics()
    metrics.waited(3.0)
    metrics.waited(-1.0)  # a clock that was set back
    metrics.resized(0.05)
    metrics.predicted(-0.15)
    metrics.predicted(0.04)
    metrics.journalled(0.002, 7)
    metrics.submitted()
    metrics.task("ordered")
    for _ in range(3):
        metrics.heard()
    samples = read(metrics)
    assert value(samples, "muster_wait_seconds_bucket", le="5.0") == 2
    assert value(samples, "muster_wait_seconds_bucket", le="1.0") == 1
    assert value(samples, "muster_resizes_total") == 1
    assert value(samples, "muster_resize_pause_seconds_sum") == 0.05
    assert value(samples, "muster_prediction_error_ratio_bucket", le="0.2", direction="early") == 1
    assert value(samples, "muster_prediction_error_ratio_bucket", le="0.05", direction="late") == 1
    assert value(samples, "muster_journal_facts_total") == 7
    assert value(samples, "muster_submissions_total") == 1
    assert value(samples, "muster_tasks_total", event="ordered") == 1
    assert value(samples, "muster_messages_total") == 3


def test_decisions_by_kind_and_reason(busy: View) -> None:
    metrics, code = Metrics(), "waiting.devices"
    codes = {number("large"): code}
    metrics.cycle(0.02, {("wait", code): 1, ("preempt", "preempted.reclaim"): 2})
    metrics.cycle(0.02, {})
    metrics.set_gauges(busy, Entitlements({}), code_of=lambda job: codes.get(job, ""))
    samples = read(metrics)
    assert value(samples, "muster_cycle_seconds_count") == 2
    assert value(samples, "muster_decisions_total", kind="wait", reason=code) == 1
    assert value(samples, "muster_preempted_total") == 2
    assert value(samples, "muster_pending_jobs", pool="text", reason=code) == 1
    assert value(samples, "muster_running_jobs", pool="vision") == 1
    assert value(samples, "muster_running_jobs", pool="text") == 0
    # What is no more is not shown as it once was.
    gone = replace(busy, jobs={number("small"): busy.jobs[number("small")]})
    metrics.set_gauges(gone, Entitlements({}))
    assert value(read(metrics), "muster_pending_jobs", pool="text", reason=code) is None


def test_a_job_that_no_cycle_has_seen_is_undecided(busy: View) -> None:
    metrics = Metrics()
    metrics.set_gauges(busy, Entitlements({}))
    assert value(read(metrics), "muster_pending_jobs", pool="text", reason="undecided") == 1


def test_devices_of_pools_are_summed_upwards(busy: View) -> None:
    metrics, answer = Metrics(), decided(busy)
    metrics.set_gauges(busy, answer.entitlements)
    samples = read(metrics)
    for pool, used in (("vision", 3), ("text", 0), ("lab", 3)):
        may = answer.entitlements.of(pool, "A100")
        assert value(samples, "muster_pool_devices", pool=pool, state="used") == used
        assert value(samples, "muster_pool_devices", pool=pool, state="entitled") == may
        beyond = max(0, used - may)
        assert value(samples, "muster_pool_devices", pool=pool, state="borrowed") == beyond


def test_every_device_is_in_one_state() -> None:
    here = mixed(
        (3, node_set()),
        (1, node_set("b", device_type="H100", devices=4)),
        (1, node_set("c", devices=0)),
    )
    here = taken(here, placement(*_bits("n0", 3), *_bits("n1", 1)).slots)
    states = {"n1": NodeState.DRAINING, "n2": NodeState.LOST}
    nodes = tuple(replace(each, state=states.get(each.name, each.state)) for each in here.nodes)
    metrics = Metrics()
    metrics.set_gauges(view(here.with_nodes(nodes)), Entitlements({}))
    samples = read(metrics)
    found = {
        (labels[1][1], labels[0][1]): count
        for (name, labels), count in samples.items()
        if name == "muster_devices" and count
    }
    assert found == {
        ("A100", "free"): 5,
        ("A100", "held"): 4,
        ("A100", "draining"): 7,
        ("A100", "lost"): 8,
        ("H100", "free"): 4,
    }
    # Of the nine that are free and may be used, five lie on a node that is partly used.
    assert value(samples, "muster_fragmentation_ratio") == pytest.approx(5 / 9)


def test_fragmentation_of_a_full_and_of_an_empty_cluster() -> None:
    assert fragmentation(*cluster(2).free_devices()) == 0
    assert fragmentation(*taken(cluster(1), placement(*_bits("n0", 8)).slots).free_devices()) == 0
    assert fragmentation(*taken(cluster(1), placement(*_bits("n0", 1)).slots).free_devices()) == 1


def test_the_page_tells_of_every_series() -> None:
    text = Metrics().text().decode()
    names = set(re.findall(r"^# TYPE (muster_\w+)", text, re.MULTILINE))
    told = set(re.findall(r"^\| `(muster_\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert names == told


def test_nodes_are_counted_by_engine_and_state_and_tell_how_they_are() -> None:
    here = cluster(3)
    offer = NodeOffer("n0", 1000, 10**9, engine="slurm")
    nodes = tuple(
        replace(node, offer=offer if node.name != "n2" else None, state=state)
        for node, state in zip(
            here.nodes, (NodeState.UP, NodeState.DRAINING, NodeState.UP), strict=True
        )
    )
    agents = {"n0": NodeHealth(load=2.5, disk_free=10**9), "n1": NodeHealth(temperature=71.0, ecc=1)}
    metrics = Metrics()
    metrics.set_gauges(view(here.with_nodes(nodes)), Entitlements({}), agents)
    samples = read(metrics)
    counts = {
        (engine, state): value(samples, "muster_nodes", engine=engine, state=state)
        for engine in ("slurm", "none")
        for state in ("up", "draining", "lost")
    }
    assert {key: count for key, count in counts.items() if count} == {
        ("slurm", "up"): 1,
        ("slurm", "draining"): 1,
        ("none", "up"): 1,
    }
    assert value(samples, "muster_agents") == 2
    assert value(samples, "muster_node_healthy", node="n0") == 1
    assert value(samples, "muster_node_healthy", node="n1") == 0
    assert value(samples, "muster_node_temperature_celsius", node="n1") == 71
    assert value(samples, "muster_node_temperature_celsius", node="n0") is None, "no GPU, no sample"
    assert value(samples, "muster_node_ecc_errors", node="n1") == 1
    assert value(samples, "muster_node_disk_free_bytes", node="n0") == 10**9
    metrics.set_gauges(view(here), Entitlements({}))
    assert value(read(metrics), "muster_node_healthy", node="n0") is None, "its agent is gone"
