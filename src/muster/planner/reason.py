"""Why a plan was chosen: the parts of its step, and where the runner-up loses."""

from muster.model.job import Role
from muster.model.plan import Plan, Sync
from muster.perf.predict import Breakdown, Spot
from muster.perf.wires import Wire

_LINKS = {
    Wire.NVLINK: "NVLink of a device on {}",
    Wire.LANE: "PCIe lane of a device on {}",
    Wire.SWITCH: "PCIe switch of {}",
    Wire.SOCKET: "link between the sockets of {}",
    Wire.HOST: "port of a process on {}",
    Wire.NIC: "network card of {}",
    Wire.RACK: "uplink of rack {}",
    Wire.DOMAIN: "uplink of domain {}",
}


def headline(plan: Plan, nodes: int) -> str:
    """Return a plan in a few words."""
    devices = _many(plan.devices, "device")
    where = f"on {_many(nodes, 'node')}"
    if plan.count(Role.WORKER) == 1 and plan.sync is Sync.RING:
        return f"{devices} {where}"
    words = {
        Sync.RING: f"ring over {devices} {where}",
        Sync.HIERARCHICAL: f"rings inside the nodes and over them, {devices} {where}",
        Sync.SHARDED: f"parameters sharded over {_many(plan.count(Role.WORKER), 'worker')}, "
        f"{devices} {where}",
        Sync.DEDICATED: f"{_many(plan.count(Role.SERVER), 'parameter server')} for "
        f"{_many(plan.count(Role.WORKER), 'worker')}, {devices} {where}",
    }
    return words[plan.sync]


def made_of(parts: Breakdown, step: float) -> str:
    """Return the parts of a step in one sentence."""
    computing = f"computing takes {short_time(parts.compute)}"
    if parts.busiest is None:
        return f"{computing}, nothing is transferred"
    exposed = max(0.0, step - parts.compute)
    hidden = "all hidden" if exposed < 0.005 * step else f"{short_time(exposed)} not hidden"
    busiest = f"bounded by the {link_name(parts.busiest)}"
    return f"{computing}, transfers {short_time(parts.transfers)} ({hidden} behind it), {busiest}"


def compared(best: float, other: float) -> str:
    """Return how much slower another plan is."""
    loss = 1 - other / best
    return "as fast" if loss < 0.001 else f"{loss:.1%} slower"


def link_name(spot: Spot) -> str:
    """Return a link of the cluster in words."""
    link, name, _ = spot
    return _LINKS[link.wire].format(name)


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def short_time(seconds: float) -> str:
    """Format seconds or milliseconds to three digits."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"
