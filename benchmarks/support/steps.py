"""Real training steps over real links: processes in namespaces that compute, synchronise and update.

Each task of a placement is a process in its node's namespace. Workers run a real forward and backward
pass; hooks hand each bucket of gradients over as it becomes ready; threads synchronise the buckets by
gloo during the backward pass. Steps follow each other without a barrier, as in training.
"""

import multiprocessing
import os
import statistics
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from muster.model.job import Role
from muster.model.plan import Overlap, Sync
from muster.model.profile import LayerType, ModelProfile
from muster.model.profile import Tensor as Parameter
from support.cases import BATCH, WIDTHS, Case, buckets
from support.netns import Namespace, enter, shaped_network
from support.spawned import receive, stop
from support.synchronisers import (
    Alone,
    Group,
    Owners,
    Rings,
    Synchroniser,
    Torch,
    Transfer,
    by_levels,
    cut,
    over_all,
)

WARM_UP = 2
STEPS = 7
COMPUTE_STEPS = 40
"""Steps that only compute are short: more of them, so that the median stands still."""
DEADLINE = 90.0
"""Seconds after which a case that has not ended is stopped."""
PRIORITY = -15
"""What else runs on the machine must not hold up a step: the links are the scarce thing here."""
RATE, MOMENTUM = 0.01, 0.9

Spawn = multiprocessing.get_context("forkserver")


@dataclass(frozen=True, slots=True)
class Compute:
    """Seconds of a step's compute on one worker, all workers of the machine at it at once."""

    forward: float
    backward: float
    update: float

    @property
    def total(self) -> float:
        """Seconds of a step that synchronises nothing."""
        return self.forward + self.backward + self.update


@dataclass(frozen=True, slots=True)
class Measured:
    """A case as measured: medians over the steps of the mean over the workers."""

    step: float
    compute: Compute
    exposed: float
    """Seconds from the end of the backward pass until all gradients were there."""
    transfers: tuple[Transfer, ...]
    steps: tuple[float, ...]
    digests: frozenset[float]
    """The workers' sums of parameters: one value, if all were synchronised alike."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one process is told: who it is, where it sits, and what all do."""

    case: Case
    profile: ModelProfile
    rank: int
    homes: tuple[Namespace, ...]
    """The namespace of each slot."""
    store: str
    synchronise: bool
    steps: int


@dataclass(slots=True)
class Record:
    """What one worker measured, by step."""

    totals: list[float]
    forwards: list[float]
    backwards: list[float]
    updates: list[float]
    waits: list[float]
    transfers: list[list[Transfer]]
    digest: float = 0.0


# --- the model -----------------------------------------------------------------------------------


class Model(nn.Module):
    """Dense layers of unequal size."""

    def __init__(self, widths: Sequence[int] = WIDTHS) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width, following in pairwise(widths):
            layers += [nn.Linear(width, following), nn.ReLU()]
        self.layers = nn.Sequential(*layers[:-1])

    def forward(self, x: Tensor) -> Tensor:
        """Class scores of a batch."""
        scores: Tensor = self.layers(x)
        return scores


def profile_model() -> ModelProfile:
    """The model's shape, from real backward passes of the real module in a process of its own."""
    ours, theirs = Spawn.Pipe()
    process = Spawn.Process(target=_send_profile, args=(theirs,))
    process.start()
    try:
        profile: ModelProfile = receive(ours, DEADLINE)
        return profile
    finally:
        stop(process)


def _send_profile(pipe: Connection) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, loss = Model(), nn.CrossEntropyLoss()
    x, y = _samples(0)
    order: dict[str, list[float]] = {name: [] for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        _when_ready(parameter, partial(_note_time, order[name]))
    spans = []
    for _ in range(9):
        output = loss(model(x), y)
        began = time.perf_counter()
        output.backward()
        spans.append((began, time.perf_counter() - began))
    ready = {
        name: statistics.median(
            (at - began) / span for at, (began, span) in zip(ats, spans, strict=True)
        )
        for name, ats in order.items()
    }
    pipe.send(_shape(model, ready))


def _shape(model: Model, ready: dict[str, float]) -> ModelProfile:
    sizes = {name: parameter.numel() * 4 for name, parameter in model.named_parameters()}
    tensors = tuple(Parameter(name, sizes[name], at) for name, at in sorted(ready.items(), key=_second))
    return ModelProfile(
        name="dense",
        tensors=tensors,
        operations=sum(2.0 * a * b for a, b in pairwise(WIDTHS)),
        activations=4 * sum(WIDTHS),
        layers=((LayerType.DENSE, 1.0),),
        samples=50_000,
        sample_bytes=4 * WIDTHS[0],
        batch=BATCH,
    )


def _when_ready(parameter: Any, call: Callable[[Tensor], None]) -> None:
    """Call back as soon as the parameter's gradient is complete."""
    parameter.register_post_accumulate_grad_hook(call)


def _note_time(times: list[float], _parameter: Tensor) -> None:
    times.append(time.perf_counter())


def _second(pair: tuple[str, float]) -> float:
    return pair[1]


def _samples(seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(BATCH, WIDTHS[0], generator=generator)
    return x, torch.randint(WIDTHS[-1], (BATCH,), generator=generator)


# --- ways to synchronise ---------------------------------------------------------------------------


def synchroniser(task: Task, flats: Sequence[Tensor]) -> Synchroniser:
    """The task's end of the plan's way to synchronise."""
    plan, slots = task.case.plan, task.case.placement.slots
    workers = range(plan.count(Role.WORKER))
    everyone = partial(_group, task, "all", range(len(slots)))
    if not task.synchronise:
        return Alone(everyone())
    if plan.sync is Sync.RING:
        return Rings(flats, partial(over_all, everyone()))
    if plan.sync is Sync.HIERARCHICAL:
        return Rings(flats, partial(by_levels, *_levels(task, workers)))
    owners = workers if plan.sync is Sync.SHARDED else range(len(workers), len(slots))
    shares = plan.owners or (1 / len(owners),) * len(owners)
    chunks = cut([flat.numel() for flat in flats], shares, owners)
    return Owners(everyone(), flats, chunks, workers)


def _levels(task: Task, workers: range) -> tuple[Group | None, Group | None]:
    """The group inside the task's node, and that of the nodes' first workers."""
    node_of = [task.case.placement.slots[rank].node for rank in workers]
    mine = [rank for rank in workers if node_of[rank] == node_of[task.rank]]
    firsts = [rank for rank in workers if node_of.index(node_of[rank]) == rank]
    local = _group(task, node_of[task.rank], mine) if len(mine) > 1 else None
    leaders = _group(task, "leaders", firsts) if task.rank in firsts and len(firsts) > 1 else None
    return local, leaders


def _group(task: Task, name: str, ranks: Sequence[int]) -> Group:
    options = Torch.ProcessGroupGloo._Options()
    address = task.homes[task.rank].address
    options._devices = [Torch.ProcessGroupGloo.create_device(hostname=address, lazy_init=False)]
    options._timeout = timedelta(seconds=DEADLINE)
    store = Torch.PrefixStore(name, Torch.FileStore(task.store, -1))
    made: Group = Torch.ProcessGroupGloo(store, ranks.index(task.rank), len(ranks), options)
    return made


# --- one process -----------------------------------------------------------------------------------


def run_task(task: Task, pipe: Connection) -> None:
    """The life of one process: enter the namespace, join the others, step, report."""
    threading.excepthook = _fail
    _come_first()
    enter(task.homes[task.rank].name)
    torch.set_num_threads(1)
    if task.case.placement.slots[task.rank].role is Role.SERVER:
        _serve(task)
        pipe.send(None)
    else:
        pipe.send(_train(task))
    pipe.recv()


def _come_first() -> None:
    """Raise this process alone. Linux weighs whole sessions against each other (`autogroup`), so it
    takes a session of its own first: the one it was started in belongs to others too."""
    os.setsid()
    os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    group = Path("/proc/self/autogroup")
    if group.exists():
        group.write_text(str(PRIORITY))


def _fail(args: threading.ExceptHookArgs) -> None:
    """A thread that cannot go on ends its process, or all others would wait until the deadline."""
    traceback.print_exception(args.exc_value)
    os._exit(1)


def _serve(task: Task) -> None:
    sizes = {tensor.name: tensor.bytes // 4 for tensor in task.profile.tensors}
    flats = [torch.zeros(sum(sizes[name] for name in names)) for names in buckets(task.profile)]
    sync = synchroniser(task, flats)
    for _ in range(WARM_UP + task.steps):
        sync.begin()
        for bucket in range(len(flats)):
            sync.put(bucket)
        sync.finish()


def _train(task: Task) -> Record:
    torch.manual_seed(1)
    model = Model()
    flats, bucket_of = _flatten(model, buckets(task.profile))
    sync = synchroniser(task, flats)
    record = Record([], [], [], [], [], [])
    steps = _steps(task, model, flats, bucket_of, sync, record)
    for _ in range(WARM_UP + task.steps):
        began = time.perf_counter()
        next(steps)
        record.totals.append(time.perf_counter() - began)
    record.digest = float(sum(p.detach().double().sum() for p in model.parameters()))
    return record


def _flatten(model: Model, groups: Sequence[Sequence[str]]) -> tuple[list[Tensor], dict[str, int]]:
    """One flat tensor for each bucket, with the parameters' gradients as views of it."""
    named = dict(model.named_parameters())
    flats: list[Tensor] = []
    for group in groups:
        flat = torch.zeros(sum(named[name].numel() for name in group))
        at = 0
        for name in group:
            size = named[name].numel()
            named[name].grad = flat[at : at + size].view_as(named[name])
            at += size
        flats.append(flat)
    return flats, {name: i for i, group in enumerate(groups) for name in group}


def _steps(
    task: Task,
    model: Model,
    flats: Sequence[Tensor],
    bucket_of: dict[str, int],
    sync: Synchroniser,
    record: Record,
) -> Iterator[None]:
    """Steps without end: forward, backward, wait for the gradients, update."""
    x, y = _samples(task.rank)
    loss, clock = nn.CrossEntropyLoss(), time.perf_counter
    momenta = [torch.zeros_like(flat) for flat in flats]
    parameters = [[model.get_parameter(n) for n in names] for names in buckets(task.profile)]
    missing = [0] * len(flats)
    overlap = task.case.plan.overlap is not Overlap.NONE

    def on_ready(bucket: int, _parameter: Tensor) -> None:
        missing[bucket] -= 1
        if overlap and missing[bucket] == 0:
            sync.put(bucket)

    for name, parameter in model.named_parameters():
        _when_ready(parameter, partial(on_ready, bucket_of[name]))
    while True:
        started = clock()
        missing[:] = [len(group) for group in parameters]
        for flat in flats:
            flat.zero_()
        sync.begin()
        output = loss(model(x), y)
        forward = clock()
        output.backward()
        backward = clock()
        for bucket in range(0 if overlap else len(flats)):
            sync.put(bucket)
        transfers = sync.finish()
        synced = clock()
        _update(flats, momenta, parameters, task.case.plan.count(Role.WORKER))
        record.forwards.append(forward - started)
        record.backwards.append(backward - forward)
        record.waits.append(synced - backward)
        record.updates.append(clock() - synced)
        record.transfers.append(transfers)
        yield


@torch.no_grad()
def _update(
    flats: Sequence[Tensor],
    momenta: Sequence[Tensor],
    parameters: Sequence[Sequence[nn.Parameter]],
    workers: int,
) -> None:
    """SGD with momentum on the mean gradient."""
    for flat, momentum, group in zip(flats, momenta, parameters, strict=True):
        momentum.mul_(MOMENTUM).add_(flat, alpha=1 / workers)
        at = 0
        for parameter in group:
            size = parameter.numel()
            parameter.add_(momentum[at : at + size].view_as(parameter), alpha=-RATE)
            at += size


# --- all processes ---------------------------------------------------------------------------------


def measure(case: Case, profile: ModelProfile, *, synchronise: bool = True) -> Measured:
    """Run the case for real in namespaces of its own, and clean up."""
    with shaped_network(case.rates) as nodes, tempfile.TemporaryDirectory() as folder:
        by_name = {node.name: home for node, home in zip(case.cluster.nodes, nodes, strict=True)}
        homes = tuple(by_name[slot.node] for slot in case.placement.slots)
        store = str(Path(folder, "store"))
        steps = STEPS if synchronise else COMPUTE_STEPS
        tasks = [Task(case, profile, i, homes, store, synchronise, steps) for i in range(len(homes))]
        return _summary([record for record in _run_all(tasks) if record is not None])


def _run_all(tasks: Sequence[Task]) -> list[Record | None]:
    """Start all processes, take what each reports, and let all end together."""
    pipes = [Spawn.Pipe() for _ in tasks]
    processes = [
        Spawn.Process(target=run_task, args=(task, theirs))
        for task, (_, theirs) in zip(tasks, pipes, strict=True)
    ]
    try:
        for process, (_, theirs) in zip(processes, pipes, strict=True):
            process.start()
            theirs.close()
        records = [receive(ours, DEADLINE) for ours, _ in pipes]
        for ours, _ in pipes:
            ours.send(None)
        return records
    finally:
        for process in processes:
            stop(process)


def _summary(records: Sequence[Record]) -> Measured:
    spans = [_typical([record.forwards, record.backwards, record.updates]) for record in records]
    forward, backward, update = (statistics.fmean(column) for column in zip(*spans, strict=True))
    steps = [statistics.fmean(column) for column in zip(*(r.totals for r in records), strict=True)]
    first = records[0]
    by_bucket = list(zip(*first.transfers[WARM_UP:], strict=True))
    return Measured(
        step=statistics.median(steps[WARM_UP:]),
        compute=Compute(forward, backward, update),
        exposed=statistics.fmean(statistics.median(r.waits[WARM_UP:]) for r in records),
        transfers=tuple(
            Transfer(seen[0].bytes, statistics.median(t.seconds for t in seen)) for seen in by_bucket
        ),
        steps=tuple(steps[WARM_UP:]),
        digests=frozenset(record.digest for record in records),
    )


def _typical(series: Sequence[Sequence[float]]) -> list[float]:
    return [statistics.median(values[WARM_UP:]) for values in series]


Spawn.set_forkserver_preload(["torch", "torch.distributed"])
