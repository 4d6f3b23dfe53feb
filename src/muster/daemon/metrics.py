"""Metrics of the daemon, in Prometheus' text format: see docs/reference/metrics.md.

Whoever does a thing tells of it here; gauges are set from the view by `standing`. One registry for each
daemon: two in one process do not add up.
"""

from collections import Counter as Tally
from collections.abc import Iterable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from muster.core.cycle.cycle import Decisions
from muster.model.cluster import Cluster, NodeState
from muster.model.decision import Decision, Kind
from muster.model.pool import Entitlements
from muster.model.view import JobState, Phase, View

UNDECIDED = "undecided"
"""The reason of a job that no cycle has looked at yet."""

WAITS = (1, 5, 15, 60, 300, 900, 3_600, 4 * 3_600, 12 * 3_600, 86_400, 3 * 86_400, 7 * 86_400)
"""s: from a start at the next cycle to a week."""
CYCLES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""s of a cycle, and of a write to the journal: both should be well below a second."""
PAUSES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""s: a live resize takes less than a step, a stop and start some 30."""
ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Of the time that was left when the prediction was made."""

# A series for the birth of every other one tells nobody anything.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """All series of one daemon."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._reasons: dict[int, str] = {}
        """Why each job waited in the last cycle."""
        own = self._registry
        self._pending = Gauge(
            "muster_pending_jobs",
            "Jobs that wait, by pool and reason",
            ["pool", "reason"],
            registry=own,
        )
        self._running = Gauge(
            "muster_running_jobs", "Jobs that hold devices, by pool", ["pool"], registry=own
        )
        self._wait = Histogram(
            "muster_wait_seconds", "From submission to start", buckets=WAITS, registry=own
        )
        self._cycle = Histogram(
            "muster_cycle_seconds", "Time that a cycle took", buckets=CYCLES, registry=own
        )
        self._decisions = Counter(
            "muster_decisions", "Decisions, by kind and reason", ["kind", "reason"], registry=own
        )
        self._preempted = Counter("muster_preempted", "Gangs that were told to stop", registry=own)
        self._resizes = Counter("muster_resizes", "Changes of tasks while they train", registry=own)
        self._pause = Histogram(
            "muster_resize_pause_seconds", "Training stood still so long", buckets=PAUSES, registry=own
        )
        self._error = Histogram(
            "muster_prediction_error_ratio",
            "First predicted finish against the real one, over the time that was left",
            ["direction"],
            buckets=ERRORS,
            registry=own,
        )
        self._devices = Gauge(
            "muster_devices", "Devices, by type and state", ["type", "state"], registry=own
        )
        self._pools = Gauge(
            "muster_pool_devices", "Devices of a pool, by state", ["pool", "state"], registry=own
        )
        self._fragmentation = Gauge(
            "muster_fragmentation_ratio", "Free devices on partly used nodes, of all free", registry=own
        )
        self._journal = Histogram(
            "muster_journal_seconds", "Time that a write took", buckets=CYCLES, registry=own
        )
        self._facts = Counter("muster_journal_facts", "Facts written to the journal", registry=own)
        self._submissions = Counter("muster_submissions", "Jobs that were taken in", registry=own)
        self._tasks = Counter("muster_tasks", "What became of tasks", ["event"], registry=own)
        self._messages = Counter("muster_messages", "Messages of tasks", registry=own)

    # what happens

    def cycle(self, seconds: float, decided: Decisions, view: View) -> None:
        """A cycle was carried out; `view`: what came of it."""
        self._cycle.observe(seconds)
        for (kind, reason), count in Tally(self._news(decided.decisions)).items():
            self._decisions.labels(kind, reason).inc(count)
        self._preempted.inc(sum(each.kind is Kind.PREEMPT for each in decided.decisions))
        self._reasons = {
            each.job: each.reason.code.value for each in decided.decisions if each.kind is Kind.WAIT
        }
        self._count_jobs(view)

    def _news(self, decisions: Iterable[Decision]) -> Iterator[tuple[str, str]]:
        """Kinds and reasons; a job that goes on waiting for the same reason is no news."""
        for each in decisions:
            reason = each.reason.code.value
            if each.kind is not Kind.WAIT or self._reasons.get(each.job) != reason:
                yield each.kind.value, reason

    def waited(self, seconds: float) -> None:
        """A job has started after so long."""
        self._wait.observe(max(0.0, seconds))

    def resized(self, pause: float) -> None:
        """A job has changed its tasks while it trains, and stood still for so long."""
        self._resizes.inc()
        self._pause.observe(max(0.0, pause))

    def predicted(self, error: float) -> None:
        """(predicted - real) / (real - made) of a job that has ended: below 0 it was said too early."""
        self._error.labels("early" if error < 0 else "late").observe(abs(error))

    def journalled(self, seconds: float, facts: int) -> None:
        """So many facts were written in so long."""
        self._journal.observe(seconds)
        self._facts.inc(facts)

    def submitted(self) -> None:
        """A job was taken in."""
        self._submissions.inc()

    def task(self, event: str) -> None:
        """A task was "ordered", has "started", or has "ended", "failed" or been "lost"."""
        self._tasks.labels(event).inc()

    def heard(self) -> None:
        """A task has said something."""
        self._messages.inc()

    # how things stand

    def standing(self, view: View, entitlements: Entitlements) -> None:
        """Set the gauges from the view."""
        self._count_jobs(view)
        self._devices.clear()
        for (device_type, state), count in device_states(view.cluster).items():
            self._devices.labels(device_type, state).set(count)
        self._pools.clear()
        for (pool, state), count in pool_states(view, entitlements).items():
            self._pools.labels(pool, state).set(count)
        self._fragmentation.set(fragmentation(view.cluster))

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)

    def _count_jobs(self, view: View) -> None:
        pending: Tally[tuple[str, str]] = Tally()
        running: Tally[str] = Tally(dict.fromkeys(view.pools.leaves(), 0))
        for number, state in view.jobs.items():
            if state.phase is Phase.WAITING:
                pending[state.job.pool, self._reasons.get(number, UNDECIDED)] += 1
            else:
                running[state.job.pool] += 1
        self._pending.clear()
        for (pool, reason), count in pending.items():
            self._pending.labels(pool, reason).set(count)
        self._running.clear()
        for pool, count in running.items():
            self._running.labels(pool).set(count)


def device_states(cluster: Cluster) -> dict[tuple[str, str], int]:
    """Devices by type and state: "free", "held", "draining" (free, and not to be used) or "lost"."""
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
    """Devices of each pool, those below it included: "entitled", "used", and "borrowed" beyond that."""
    used: Tally[tuple[str, str]] = Tally()
    for state in view.jobs.values():
        if state.job.pool not in view.pools.pools:
            continue  # the pools were divided anew under it
        for device_type, count in _held(view.cluster, state).items():
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


def _held(cluster: Cluster, state: JobState) -> Tally[str]:
    """Devices that a job holds, by type."""
    bits: dict[str, int] = {}
    for slot in state.held():
        bits[slot.node] = bits.get(slot.node, 0) | slot.bits
    found: Tally[str] = Tally()
    for node, each in bits.items():
        found[cluster.configuration_of(cluster.node(node)).device_type] += each.bit_count()
    return found


def fragmentation(cluster: Cluster) -> float:
    """Share of the free devices that lie on partly used nodes: 0 is whole, 1 is all in pieces.

        sum over nodes that are up and partly used of free devices / sum over all that are up

    As `place.board` has it, which migrations are weighed by, over all device types.
    """
    free = scattered = 0
    for node in cluster.nodes:
        kind = cluster.configuration_of(node)
        if node.state is NodeState.UP and kind.devices:
            count = node.free.bit_count()
            free += count
            scattered += count if node.free != kind.all_devices else 0
    return scattered / free if free else 0.0
