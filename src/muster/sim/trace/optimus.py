"""Optimus' evaluation as a trace: nine job types (worlds.optimus_types) that arrive within a window."""

from collections.abc import Iterator
from functools import lru_cache
from random import Random

from muster.model.job import Job, Need, Role, RoleSpec
from muster.perf.epochs.convergence import Target
from muster.sim.trace.draw import even
from muster.sim.trace.generate import OptimusJobs
from muster.sim.truth import Arrival
from muster.sim.worlds.curves import (
    MOST_EPOCHS,
    PATIENCE,
    CurveKind,
    Curves,
    CurveSpeed,
    epochs_until_converged,
    falling,
    terms_of,
)
from muster.sim.worlds.optimus_types import CONTAINERS, TYPES, Containers, JobType


def optimus_jobs(parameters: OptimusJobs, seed: int) -> Iterator[Arrival]:
    """Yield jobs of random type, synchronisation and threshold; servers grow with the workers."""
    random = Random(f"{seed}/optimus")
    containers = CONTAINERS[parameters.on]
    moments = even(Random(f"{seed}/moments"), parameters.jobs, parameters.window)
    for number, moment in enumerate(moments, start=1):
        kind = random.choice(TYPES)
        way = random.choice(list(CurveKind))
        threshold = random.uniform(parameters.low, parameters.high)
        job = Job(
            name=f"{kind.name}-{number}",
            roles=_roles(parameters.most, containers.worker, containers.server),
            application=f"{kind.name}-{way}",
            batch=batch_of(kind, way, parameters.most),
            number=number,
        )
        yield Arrival(moment, job, truth(kind, way, threshold, containers, parameters))


def truth(
    kind: JobType, way: CurveKind, threshold: float, containers: Containers, parameters: OptimusJobs
) -> Curves:
    """Return the curves of a job of this type, synchronisation and threshold."""
    batch = batch_of(kind, way, parameters.most)
    terms = terms_of(way, kind.size, containers.site, batch)
    curve = falling(kind.b0, kind.b2)
    epochs = epochs_until_converged(curve, threshold)
    whole = CurveSpeed(way, terms, batch, kind.samples)
    alone = epochs / whole.rate("", 1, 1)
    kept = max(batch, kind.samples * min(1.0, parameters.longest / alone))
    target = Target(threshold, PATIENCE, MOST_EPOCHS)
    return Curves(epochs, CurveSpeed(way, terms, batch, kept), curve, target)


def batch_of(kind: JobType, way: CurveKind, most: int) -> int:
    """Return a worker's mini-batch if asynchronous, else one for each of `most` workers."""
    return kind.minibatch * (1 if way is CurveKind.ASYNCHRONOUS else most)


@lru_cache(maxsize=64)
def _roles(most: int, worker: Need, server: Need) -> tuple[RoleSpec, ...]:
    return tuple(
        RoleSpec(role, need, gang=1, least=1, most=most)
        for role, need in ((Role.WORKER, worker), (Role.SERVER, server))
    )
