"""Memory of a plan: parameters, gradients, optimiser state and activations."""

from math import ceil

from muster.model.cluster import Cluster
from muster.model.job import Role
from muster.model.plan import Plan, Sync
from muster.model.profile import ModelProfile
from muster.perf.estimate import Unknown, WhyUnknown
from muster.perf.servers import holdings
from muster.perf.shape import Seat, Shape

GB = 1e9


def worker_bytes(profile: ModelProfile, batch: float, *, updates: bool) -> float:
    """Return bytes on one device with `batch` samples; `updates`: it keeps the optimiser state too."""
    kept = 2 * profile.parameter_bytes + (profile.state if updates else 0)
    at_once = min(batch, profile.micro_batch) if profile.micro_batch else batch
    return profile.parameters * kept + profile.activations * at_once


def server_bytes(profile: ModelProfile, share: float) -> float:
    """Return bytes of a server with a share of the parameters, their summed gradients and state."""
    return share * profile.parameters * (2 * profile.parameter_bytes + profile.state)


def most_samples(profile: ModelProfile, device_memory: float, *, updates: bool) -> float:
    """Return the samples that fit on one device; unbounded where its memory is not stated."""
    if not device_memory:
        return float("inf")
    room = device_memory - worker_bytes(profile, 0, updates=updates)
    most = max(0.0, room / profile.activations) if profile.activations else float("inf")
    # A micro-batch that fits is followed by the next.
    return float("inf") if profile.micro_batch and most >= profile.micro_batch else most


def misfit(profile: ModelProfile, plan: Plan, shape: Shape, cluster: Cluster) -> Unknown | None:
    """Return what does not fit, None if all does; memory that the files do not state is unchecked."""
    held = holdings(plan, shape)
    for host in shape:
        memory = cluster.configurations[host.configuration].device_memory
        for seat in host.seats:
            if seat.role is Role.SERVER:
                share = held.of(seat)
                what = f"{share:.0%} of the parameters of {profile.name}"
                needs = server_bytes(profile, share)
                short = _short(f"server {seat.task}", seat.memory, needs, what)
            else:
                short = _worker(profile, plan, seat, memory, host.configuration)
            if short is not None:
                return short
    return None


def samples_of(profile: ModelProfile, plan: Plan, seat: Seat) -> float:
    """Return the most samples of one step on any device of a worker (on the task if it has none)."""
    if not plan.batch:
        return profile.batch
    return ceil(plan.batch[seat.task] / max(1, seat.bits.bit_count()))


def _worker(
    profile: ModelProfile, plan: Plan, seat: Seat, memory: float, configuration: str
) -> Unknown | None:
    batch = samples_of(profile, plan, seat)
    needs = worker_bytes(profile, batch, updates=plan.sync is not Sync.DEDICATED)
    where = f"a device of {configuration}" if seat.bits else f"worker {seat.task}"
    has = memory if seat.bits else seat.memory
    return _short(where, has, needs, f"{profile.name} with {batch:g} samples")


def _short(where: str, has: float, needs: float, what: str) -> Unknown | None:
    if not has or needs <= has:
        return None
    detail = f"{where} has {has / GB:.1f} GB; {what} takes {needs / GB:.1f} GB"
    return Unknown(WhyUnknown.OUT_OF_MEMORY, detail)
