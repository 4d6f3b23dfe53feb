"""What a wider placement costs a job: the check behind `max_slowdown`.

A job that names its model is priced on a typical shape of each level (`typical`). One that gives only
its step's figures is priced as a ring without overlap (Patarasuk and Yuan 2009): with k devices, S
bytes of gradients, B and L the worst bandwidth and latency of the links crossed,

    t = compute + 2 (k-1)/k · S/B + 2 (k-1) · L        [s]

which errs towards the stricter contract.
"""

from dataclasses import dataclass

from muster.model.cluster import Cluster
from muster.model.job import Job, StepProfile
from muster.model.plan import Plan
from muster.model.profile import ModelProfile
from muster.model.topology import ConfigurationSet, Level, Link, holds
from muster.perf.estimate import Unknown
from muster.perf.predict import Predictor
from muster.perf.shape import Shape
from muster.perf.typical import typical

SYNC_ONLY = StepProfile(compute=0.0, gradients=1e8)
"""For a job without figures: a step of synchronisation alone, the strictest reading of its tolerance.
The bytes (100 MB, ResNet-50's gradients) matter only against the links' latency."""


@dataclass(frozen=True, slots=True)
class Reach:
    """For a number of devices: the narrowest level that holds them, and the link at each level."""

    narrowest: Level
    links: tuple[tuple[Level, Link], ...]
    shapes: tuple[tuple[Level, Shape], ...] = ()
    """A typical placement at each level."""


def step_seconds(profile: StepProfile, devices: int, link: Link) -> float:
    """Return the seconds of one step over a ring whose slowest link is this one."""
    if devices <= 1:
        return profile.compute
    moved = 2 * (devices - 1) / devices * profile.gradients
    return profile.compute + moved / link.bandwidth + 2 * (devices - 1) * link.latency


def widest_within(job: Job, devices: int, reach: Reach, predictor: Predictor) -> Level:
    """Return the widest level that keeps both halves of the job's locality contract."""
    contract = job.locality
    if contract.max_slowdown is None or devices <= 1:
        return contract.widest
    times = _modelled(job, reach, predictor) if job.model is not None else None
    if times is None:
        profile = job.profile or SYNC_ONLY
        times = {level: step_seconds(profile, devices, link) for level, link in reach.links}
    bound = times[reach.narrowest] * (1 + contract.max_slowdown)
    within = [level for level, seconds in times.items() if seconds <= bound]
    return min(contract.widest, max(within, default=reach.narrowest))


def _modelled(job: Job, reach: Reach, predictor: Predictor) -> dict[Level, float] | None:
    """Return step times of the job's model by level, None where its speed here is unknown."""
    assert job.model is not None
    times = {}
    for level, shape in reach.shapes:
        found = predictor.step_of_shape(job.model, _plan(job, job.model, shape), shape)
        if isinstance(found, Unknown):
            return None
        times[level] = found
    return times


def _plan(job: Job, model: ModelProfile, shape: Shape) -> Plan:
    """Return a ring with even parts of the batch."""
    counts = [seat.bits.bit_count() for host in shape for seat in host.seats]
    each = (job.batch or model.batch * sum(counts)) / sum(counts)
    return Plan((), batch=tuple(round(each * count) for count in counts))


def reach(cluster: Cluster, kinds: tuple[ConfigurationSet, ...], devices: int) -> Reach:
    """Return what these configuration sets offer to a gang of `devices` on the empty cluster."""
    if devices <= 1:
        return Reach(Level.DEVICE, ())
    used = {node.configuration for node in cluster.nodes}
    kinds = tuple(kind for kind in kinds if kind.devices and kind.name in used)
    narrowest = next(
        (level for level in Level if _largest_group(cluster, kinds, level) >= devices),
        Level.CLUSTER,
    )
    levels = [level for level in Level if level >= narrowest]
    links = tuple((level, _slowest(cluster, kinds, level)) for level in levels)
    return Reach(narrowest, links, tuple((level, typical(kinds, level, devices)) for level in levels))


def _largest_group(cluster: Cluster, kinds: tuple[ConfigurationSet, ...], level: Level) -> int:
    if level is Level.DEVICE:
        return 1
    if level <= Level.NODE:
        return max((g.bit_count() for kind in kinds for g in _tree_groups(kind, level)), default=0)
    devices = {kind.name: kind.devices for kind in kinds}
    groups: dict[tuple[str, ...], int] = {}
    for node in cluster.nodes:
        key = {Level.RACK: (node.domain, node.rack), Level.DOMAIN: (node.domain,)}.get(level, ())
        groups[key] = groups.get(key, 0) + devices.get(node.configuration, 0)
    return max(groups.values(), default=0)


def _tree_groups(kind: ConfigurationSet, level: Level) -> tuple[int, ...]:
    """Return the tree's groups at a level: of several layers (NVLink groups), the widest."""
    return next((layer.groups for layer in reversed(kind.layers) if layer.level == level), ())


def _slowest(cluster: Cluster, kinds: tuple[ConfigurationSet, ...], level: Level) -> Link:
    """Return the worst bandwidth and latency of all links up to a level: wider is never faster."""
    links = [_inside(kind, at) for kind in kinds for at in Level if at <= min(level, Level.NODE)]
    if level > Level.NODE:
        links += [kind.nic for kind in kinds]
        links += [cluster.links[at] for at in Level if Level.RACK <= at <= level]
    crossed = [link for link in links if link is not None]
    return Link(min(link.bandwidth for link in crossed), max(link.latency for link in crossed))


def _inside(kind: ConfigurationSet, level: Level) -> Link | None:
    """Return the fastest link that joins the groups of a level, None if the node lacks that level."""
    groups = _tree_groups(kind, level)
    if not groups:
        return None
    joining = [layer.link for layer in kind.layers if all(holds(layer, g) for g in groups)]
    return max(joining, key=lambda link: link.bandwidth)
