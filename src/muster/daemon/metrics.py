"""Metrics of the daemon, in Prometheus' text format: see docs/reference/metrics.md.

Each daemon has its own registry: two in one process do not add up.
"""

from collections import Counter as Tally
from collections.abc import Callable, Mapping
from functools import partial

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from muster.core.quotas.demand import held_by_type
from muster.daemon.forecast_gauges import ForecastGauges
from muster.daemon.node_gauges import NodeGauges
from muster.model.cluster import Cluster, Node, NodeState, fragmentation
from muster.model.decision import Kind
from muster.model.pool import Entitlements
from muster.model.view import Phase, View
from muster.perf.history.hops import NodeLink
from muster.wire.api.records import NodeHealth

UNDECIDED = "undecided"
"""The reason of a job that no cycle has seen yet."""

WAITS = (1, 5, 15, 60, 300, 900, 3_600, 4 * 3_600, 12 * 3_600, 86_400, 3 * 86_400, 7 * 86_400)
"""s: from a start at the next cycle to a week."""
CYCLES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""s of a cycle or a write to the journal: both should be well below a second."""
PAUSES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""s: a live resize takes less than a step, a restart some 30."""
ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""As a share of the time that was left when the prediction was made."""

# The creation time of every series is of no use.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """All series of one daemon."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        counter = partial(Counter, registry=self._registry)
        histogram = partial(Histogram, registry=self._registry)
        self._pending = gauge(
            "muster_pending_jobs", "Waiting jobs, by pool and reason", ["pool", "reason"]
        )
        self._running = gauge("muster_running_jobs", "Jobs that hold devices, by pool", ["pool"])
        self._wait = histogram("muster_wait_seconds", "From submission to start", buckets=WAITS)
        self._cycle = histogram("muster_cycle_seconds", "Duration of a cycle", buckets=CYCLES)
        self._decisions = counter(
            "muster_decisions", "Decisions, by kind and reason", ["kind", "reason"]
        )
        self._preempted = counter("muster_preempted", "Preempted gangs")
        self._resizes = counter("muster_resizes", "Live resizes")
        self._pause = histogram(
            "muster_resize_pause_seconds", "Pause of training for a live resize", buckets=PAUSES
        )
        self._error = histogram(
            "muster_prediction_error_ratio",
            "Error of the first predicted finish, over the time that was left",
            ["direction"],
            buckets=ERRORS,
        )
        self._devices = gauge("muster_devices", "Devices, by type and state", ["type", "state"])
        self._pools = gauge("muster_pool_devices", "Devices of a pool, by state", ["pool", "state"])
        self._fragmentation = gauge(
            "muster_fragmentation_ratio", "Share of free devices on partly used nodes"
        )
        self._journal = histogram(
            "muster_journal_seconds", "Duration of a write to the journal", buckets=CYCLES
        )
        self._facts = counter("muster_journal_facts", "Facts written to the journal")
        self._submissions = counter("muster_submissions", "Accepted jobs")
        self._tasks = counter("muster_tasks", "Tasks, by what happened to them", ["event"])
        self._messages = counter("muster_messages", "Messages from tasks")
        self._nodes = gauge("muster_nodes", "Nodes, by engine and state", ["engine", "state"])
        self._agents = gauge("muster_agents", "Agents that are connected")
        self._health = NodeGauges(self._registry)
        self.forecasts = ForecastGauges(self._registry)

    # --- events ---

    def cycle(self, seconds: float, decided: Mapping[tuple[str, str], int]) -> None:
        """Count a cycle, and its decisions by kind and reason."""
        self._cycle.observe(seconds)
        for (kind, reason), count in decided.items():
            self._decisions.labels(kind, reason).inc(count)
            if kind == Kind.PREEMPT:
                self._preempted.inc(count)

    def waited(self, seconds: float) -> None:
        """Count a start after this wait."""
        self._wait.observe(max(0.0, seconds))

    def resized(self, pause: float) -> None:
        """Count a live resize with its pause, in s."""
        self._resizes.inc()
        self._pause.observe(max(0.0, pause))

    def predicted(self, error: float) -> None:
        """Count a prediction error, (predicted - real) / (real - made): below 0 is too early."""
        self._error.labels("early" if error < 0 else "late").observe(abs(error))

    def journalled(self, seconds: float, facts: int) -> None:
        """Count a write to the journal."""
        self._journal.observe(seconds)
        self._facts.inc(facts)

    def submitted(self) -> None:
        """Count an accepted job."""
        self._submissions.inc()

    def task(self, event: str) -> None:
        """Count an event of a task: "ordered", "ended", "failed" or "lost"."""
        self._tasks.labels(event).inc()

    def heard(self) -> None:
        """Count a message from a task."""
        self._messages.inc()

    # --- gauges ---

    def set_gauges(
        self,
        view: View,
        entitlements: Entitlements,
        agents: Mapping[str, NodeHealth] | None = None,
        links: Mapping[str, NodeLink] | None = None,
        code_of: Callable[[int], str] = lambda job: "",
    ) -> None:
        """Set the gauges from the view, from what agents and transfers say of nodes, and from the code
        of why a job waits; empty: no cycle has seen it yet. Looks at all jobs."""
        self._count_jobs(view, code_of)
        self._nodes.clear()
        for (engine, node_state), count in node_states(view.cluster).items():
            self._nodes.labels(engine, node_state).set(count)
        self._agents.set(len(agents or {}))
        self._health.set(agents or {}, links or {})
        self._devices.clear()
        for (device_type, state), count in device_states(view.cluster).items():
            self._devices.labels(device_type, state).set(count)
        self._pools.clear()
        for (pool, state), count in pool_states(view, entitlements).items():
            self._pools.labels(pool, state).set(count)
        self._fragmentation.set(fragmentation(*view.cluster.free_devices()))

    def text(self) -> bytes:
        """Return all series in Prometheus' text format."""
        return generate_latest(self._registry)

    def _count_jobs(self, view: View, code_of: Callable[[int], str]) -> None:
        pending: Tally[tuple[str, str]] = Tally()
        running: Tally[str] = Tally(dict.fromkeys(view.pools.leaves(), 0))
        for number, state in view.jobs.items():
            if state.phase is Phase.WAITING:
                pending[state.job.pool, code_of(number) or UNDECIDED] += 1
            else:
                running[state.job.pool] += 1
        self._pending.clear()
        for (pool, reason), count in pending.items():
            self._pending.labels(pool, reason).set(count)
        self._running.clear()
        for pool, count in running.items():
            self._running.labels(pool).set(count)


def node_states(cluster: Cluster) -> dict[tuple[str, str], int]:
    """Count nodes by engine and state; the daemon's own machine is of engine "none"."""
    engines = dict.fromkeys(_engine(node) for node in cluster.nodes)
    found = {(engine, state.value): 0 for engine in engines for state in NodeState}
    for node in cluster.nodes:
        found[_engine(node), node.state.value] += 1
    return found


def _engine(node: Node) -> str:
    return (node.offer.engine if node.offer else "") or "none"


def device_states(cluster: Cluster) -> dict[tuple[str, str], int]:
    """Count devices by type and state: "free", "held", "draining" (free but not to be used), "lost"."""
    found = {
        (device_type, state): 0
        for device_type in cluster.device_types()
        for state in ("free", "held", "draining", "lost")
    }
    for node in cluster.nodes:
        kind = cluster.configuration_of(node)
        if not kind.devices:
            continue
        if node.state is NodeState.LOST:
            found[kind.device_type, "lost"] += kind.devices
            continue
        free = node.free.bit_count()
        idle = "free" if node.state is NodeState.UP else "draining"
        found[kind.device_type, idle] += free
        found[kind.device_type, "held"] += kind.devices - free
    return found


def pool_states(view: View, entitlements: Entitlements) -> dict[tuple[str, str], int]:
    """Count devices of each pool and those below it: "entitled", "used", and "borrowed" beyond."""
    used: Tally[tuple[str, str]] = Tally()
    for state in view.jobs.values():
        if state.placement is None or state.job.pool not in view.pools.pools:
            continue  # it waits, or its pool was removed
        for device_type, count in held_by_type(view.cluster, state.held()).items():
            for pool in view.pools.ancestry(state.job.pool):
                used[pool, device_type] += count
    found: dict[tuple[str, str], int] = {}
    for pool in view.pools.pools:
        both = [
            (used[pool, device_type], entitlements.of(pool, device_type))
            for device_type in view.cluster.device_types()
        ]
        found[pool, "used"] = sum(have for have, _ in both)
        found[pool, "entitled"] = sum(may for _, may in both)
        found[pool, "borrowed"] = sum(max(0, have - may) for have, may in both)
    return found
