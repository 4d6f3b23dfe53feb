"""One step, transfer by transfer: the finest of the models, and what the closed form is held against.

Every transfer of every piece crosses the very edges on which the closed form lays it (`rings`,
`servers`) and gets its max-min fair part of them (`fair`). Gradients leave each worker when that worker
has them. A ring moves a piece in lock-step and then the next. Stages of a hierarchy follow each other
for a piece, and pieces follow each other in each stage. Owners take their part in chunks: a chunk that
all workers have pushed is pulled by all (`exchange`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.plan import Overlap, Plan, Sync
from muster.model.profile import ModelProfile
from muster.perf.costs import CHUNK
from muster.perf.estimate import Unknown
from muster.perf.memory import misfit, samples_of
from muster.perf.overlap import BUCKET, FORWARD, pieces
from muster.perf.predict import Predictor, mistake
from muster.perf.rings import Rank, hierarchical, ranks_of
from muster.perf.shape import Shape, site_of
from support.judge.alike import Task
from support.judge.exchange import Exchange
from support.judge.script import NOTHING, Piece, Script

FINEST = 2048
"""Chunks of all owners together at most: those of very large models are larger here than they are."""


def replay(
    predictor: Predictor,
    profile: ModelProfile,
    plan: Plan,
    placement: Placement,
    *,
    bucket: int = BUCKET,
    chunk: float = CHUNK,
) -> float | Unknown:
    """Seconds of one step, alone on the cluster, or why it cannot be said."""
    shape = site_of(predictor.cluster, placement).shape
    wrong = mistake(plan, shape) or misfit(profile, plan, shape, predictor.cluster)
    if wrong is not None:
        return wrong
    computing = _computing(predictor, profile, plan, shape)
    if isinstance(computing, Unknown):
        return computing
    step = _Step(predictor, plan, shape, computing, _travelling(profile, bucket))
    if plan.sync is Sync.RING:
        return step.ring()
    if plan.sync is Sync.HIERARCHICAL:
        return step.hierarchical()
    least = max(chunk, profile.gradients / FINEST)
    exchange = Exchange(plan, shape, predictor.wiring, least)
    return step.barrier(exchange) if plan.overlap is Overlap.BARRIER else step.owners(exchange)


def _travelling(profile: ModelProfile, bucket: int) -> list[Piece]:
    """Pieces in the order in which they become ready."""
    found = pieces(profile, bucket)
    on = [*map(float, found.bytes_on), 0.0]
    return [(on[i] - on[i + 1], float(at)) for i, at in enumerate(found.ready)]


def _computing(
    predictor: Predictor, profile: ModelProfile, plan: Plan, shape: Shape
) -> dict[Task, float] | Unknown:
    """Seconds of computing of each worker."""
    found: dict[Task, float] = {}
    for i, host in enumerate(shape):
        for j, seat in enumerate(host.seats):
            if seat.role is Role.WORKER:
                cost = predictor.line(profile, host.configuration, seat.millicores)
                if isinstance(cost, Unknown):
                    return cost
                found[i, j] = cost.seconds(samples_of(profile, plan, seat))
    return found


@dataclass(frozen=True, slots=True)
class _Step:
    """One step to be laid out and played."""

    predictor: Predictor
    plan: Plan
    shape: Shape
    computing: Mapping[Task, float]
    pieces: list[Piece]

    def ring(self) -> float | Unknown:
        """All devices in one ring, which waits for the slowest."""
        script = self._script()
        ready = self._ready(max(self.computing.values()))
        gates = [script.gates.at(time) for time in ready]
        script.ring(ranks_of(self.shape), gates, [NOTHING] * len(gates))
        return self._seconds(script)

    def hierarchical(self) -> float | Unknown:
        """Rings inside the nodes, one over them, and chains back inside the nodes."""
        script = self._script()
        by_host: defaultdict[int, list[Rank]] = defaultdict(list)
        for rank in ranks_of(self.shape):
            by_host[rank.host].append(rank)
        over = [script.gates.new(len(by_host)) for _ in self.pieces]
        done = [script.gates.new(1) for _ in self.pieces] if len(by_host) > 1 else over
        for ranks in by_host.values():
            slowest = max(self.computing[rank.host, rank.seat] for rank in ranks)
            self._inside(script, ranks, self._ready(slowest), over)
        script.ring([ranks[0] for ranks in by_host.values()], over, done)
        back = hierarchical(self.shape, self.predictor.wiring)[2]
        for host in by_host:
            loads = {place: load for place, load in back.loads.items() if place[1] == host}
            if loads:
                end = [NOTHING] * len(done)
                script.lockstep(loads, 1.0, done, end, back.messages * back.latency)
        return self._seconds(script)

    def owners(self, exchange: Exchange) -> float | Unknown:
        """Pushes as gradients become ready, pulls as soon as a chunk is summed."""
        script = self._script()
        times = {kind: self._ready(seconds) for kind, seconds in self._by_kind(exchange).items()}
        exchange.push_and_pull(script, self._summed_inside(script, exchange, times))
        return self._seconds(script)

    def barrier(self, exchange: Exchange) -> float | Unknown:
        """Pulls beside the forward pass, then pushes beside the backward pass."""
        first = self._script()
        gates = exchange.pull(first)
        pulled = first.play(self.predictor.link)
        if isinstance(pulled, Unknown):
            return pulled
        second, times, ends = self._script(), {}, []
        for kind, seconds in self._by_kind(exchange).items():
            # What a layer needs last, the forward pass still has as much to do after it as the
            # backward pass before its gradient.
            late = zip(gates[kind], self.pieces, strict=True)
            waits = (pulled.opened[gate] + at * FORWARD * seconds for gate, (_, at) in late)
            forward, backward = max(FORWARD * seconds, *waits), (1 - FORWARD) * seconds
            times[kind] = [forward + at * backward for _, at in self.pieces]
            ends.append(forward + backward)
        exchange.push(second, self._summed_inside(second, exchange, times))
        return self._seconds(second, ends)

    def _summed_inside(
        self, script: Script, exchange: Exchange, times: Mapping[int, list[float]]
    ) -> dict[int, list[int]]:
        """Gates of each kind of worker's pieces: ready, and summed over the task's own devices."""
        devices: defaultdict[Task, list[Rank]] = defaultdict(list)
        for rank in ranks_of(self.shape):
            devices[rank.host, rank.seat].append(rank)
        members = Counter(exchange.kinds[task] for task in devices)
        gates = {kind: [script.gates.new(members[kind]) for _ in self.pieces] for kind in members}
        for task, ranks in devices.items():
            kind = exchange.kinds[task]
            self._inside(script, ranks, times[kind], gates[kind])
        return gates

    def _inside(self, script: Script, ranks: list[Rank], ready: list[float], then: list[int]) -> None:
        """A ring of the devices of one node, if it has several, then a report for each piece."""
        if len(ranks) == 1:
            script.gates.timers += zip(ready, then, strict=True)
        else:
            script.ring(ranks, [script.gates.at(time) for time in ready], then)

    def _by_kind(self, exchange: Exchange) -> dict[int, float]:
        """Seconds of computing of each kind of worker."""
        return {exchange.kinds[task]: seconds for task, seconds in self.computing.items()}

    def _ready(self, computing: float) -> list[float]:
        """Return when a worker with this much computing may send each piece, s."""
        if self.plan.overlap is Overlap.NONE:
            return [computing] * len(self.pieces)
        return [computing * (FORWARD + (1 - FORWARD) * at) for _, at in self.pieces]

    def _script(self) -> Script:
        return Script(self.shape, self.predictor.wiring, self.pieces)

    def _seconds(self, script: Script, ends: Iterable[float] = ()) -> float | Unknown:
        course = script.play(self.predictor.link)
        if isinstance(course, Unknown):
            return course
        return max(course.end, *self.computing.values(), *ends)
