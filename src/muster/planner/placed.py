"""Plans for tasks that are placed already: how they synchronise, who owns what, whose samples.

The runtime sums gradients around a ring (NCCL on GPUs, which sums inside the nodes first), over owners
among the workers, or over servers. Which of them a job may use follows from its `sync`, from what its
owners do and from its tasks.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from muster.model.cluster import Cluster
from muster.model.job import Job, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import ChosenPlan, Part, Plan, Sync
from muster.model.profile import ModelProfile
from muster.perf.estimate import Unknown
from muster.perf.predict import Predictor
from muster.perf.shape import site_of
from muster.planner.candidates import PlacedPlan, PlacedWorkers, Workshop
from muster.split.batch import Bearer, shares

CPU = "cpu"
"""The type of virtual devices: their processes sum by a plain ring."""


@dataclass(frozen=True, slots=True)
class SyncWay:
    """A plan for placed tasks, and the s of a step as predicted from the models alone."""

    plan: Plan
    seconds: float


def price_of(
    predictor: Predictor,
    profile: ModelProfile,
    plan: ChosenPlan,
    batch: int | None,
    placement: Placement,
) -> float | None:
    """Return the s of a step under a plan in force, from the models alone; None if unknown."""
    given, placement = in_force(plan, batch, placement)
    site = site_of(predictor.cluster, placement)
    seconds = predictor.step_of_shape(profile, given, site.shape)
    return None if isinstance(seconds, Unknown) else seconds


def in_force(plan: ChosenPlan, batch: int | None, placement: Placement) -> tuple[Plan, Placement]:
    """Return a chosen plan in full, and the tasks that take part in it."""
    placement = numbered(placement)
    workers = tuple(slot for slot in placement.slots if slot.role is Role.WORKER)
    if plan.sync is not Sync.DEDICATED:
        placement = Placement(workers)
    counts = Counter((slot.role, slot.need) for slot in placement.slots)
    parts = tuple(Part(role, count, need) for (role, need), count in counts.items())
    samples = plan.batch or (_even(batch, len(workers)) if batch else ())
    return Plan(parts, plan.sync, samples, plan.owners), placement


def _even(batch: int, workers: int) -> tuple[int, ...]:
    """Return equal parts of a batch: a chosen plan names unequal ones only."""
    each, more = divmod(batch, workers)
    return tuple(each + (i < more) for i in range(workers))


def ways(
    predictor: Predictor, job: Job, profile: ModelProfile, batch: int | None, placement: Placement
) -> tuple[SyncWay, ...]:
    """Return the plan of each way to synchronise that these tasks can use, the default first; none if
    a part of the step is unknown."""
    placement = numbered(placement)
    workshop = Workshop(predictor, job, profile)
    found: dict[Sync, SyncWay] = {}
    for candidate in _candidates(workshop, predictor.cluster, job, profile, batch, placement):
        site = site_of(predictor.cluster, candidate.placement)
        seconds = predictor.step_of_shape(profile, candidate.plan, site.shape)
        if isinstance(seconds, Unknown):
            continue
        # What NCCL makes of a ring is the better of the two.
        sync = Sync.RING if candidate.plan.sync is Sync.HIERARCHICAL else candidate.plan.sync
        if sync not in found or seconds < found[sync].seconds:
            found[sync] = SyncWay(replace(candidate.plan, sync=sync), seconds)
    return tuple(found.values())


def numbered(placement: Placement) -> Placement:
    """Number the tasks of each role from 0 in their order: a live job's have gaps."""
    counts = dict.fromkeys(Role, 0)
    slots = []
    for slot in placement.slots:
        slots.append(
            slot if slot.index == counts[slot.role] else replace(slot, index=counts[slot.role])
        )
        counts[slot.role] += 1
    return Placement(tuple(slots))


def _candidates(
    workshop: Workshop,
    cluster: Cluster,
    job: Job,
    profile: ModelProfile,
    batch: int | None,
    placement: Placement,
) -> Iterator[PlacedPlan]:
    slots = tuple(slot for slot in placement.slots if slot.role is Role.WORKER)
    servers = [slot for slot in placement.slots if slot.role is Role.SERVER]
    devices = sum(slot.bits.bit_count() for slot in slots)
    if not slots or not all(slot.bits for slot in slots):
        return
    samples = batch or profile.batch * devices
    for sync in _allowed(job, len(slots), len(servers)):
        placed = _with_parts(workshop, cluster, slots, samples, updates=sync is not Sync.DEDICATED)
        if placed is None:
            continue
        if sync is Sync.RING:
            yield workshop.plan(placed, Sync.RING)
            if _on_gpus(cluster, slots):
                yield workshop.plan(placed, Sync.HIERARCHICAL)
        elif sync is Sync.SHARDED:
            # Servers stay, without a part: the runtime keeps them for the next change.
            yield workshop.sharded(placed)
        else:
            yield workshop.served_by(placed, servers)


def _allowed(job: Job, workers: int, servers: int) -> list[Sync]:
    """Return the ways that the user and the tasks allow, the default first."""
    asked, updates = job.program.sync, job.program.owners == "update"
    if workers == 1 and not servers:
        return [Sync.RING]
    if servers:
        every = [Sync.DEDICATED, Sync.SHARDED] if workers > 1 else [Sync.DEDICATED]
    else:
        every = [Sync.SHARDED] if updates else [Sync.RING, Sync.SHARDED]
    if asked == "auto":
        return every
    return [sync for sync in every if sync == asked] or every[-1:]


def _with_parts(
    workshop: Workshop, cluster: Cluster, slots: tuple[Slot, ...], batch: int, *, updates: bool
) -> PlacedWorkers | None:
    """Return the workers with parts of the batch with which all finish together; None if unknown."""
    bearers: list[Bearer] = []
    for slot in slots:
        kind = cluster.node(slot.node).configuration
        bearer = workshop.bearer(kind, slot.bits.bit_count(), updates=updates)
        if isinstance(bearer, Unknown):
            return None
        bearers.append(bearer)
    parts = shares(bearers, batch)
    return None if parts is None else PlacedWorkers(slots, parts)


def _on_gpus(cluster: Cluster, slots: tuple[Slot, ...]) -> bool:
    kinds = {cluster.node(slot.node).configuration for slot in slots}
    nodes = {slot.node for slot in slots}
    several = any(sum(s.node == node for s in slots) > 1 for node in nodes) and len(nodes) > 1
    return several and all(cluster.configurations[kind].device_type != CPU for kind in kinds)
