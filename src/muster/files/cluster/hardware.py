"""Configuration sets derived from what a node offers, where no file describes it."""

import hashlib
from dataclasses import replace
from typing import Any

from muster.files.errors import FieldError
from muster.model.offer import NodeOffer
from muster.model.topology import DEFAULT_HOST, ConfigurationSet, Link
from muster.perf.devices import rate_of_cores

VIRTUAL = "cpu"
"""The type of virtual devices."""

KEPT_BITS = 7
"""Leading bits of a memory size that count: equal machines differ by some MB."""

DIGITS = 6
"""Of the digest in a derived name: sets of one label that differ are few."""

_LOOPBACK = {
    "bandwidth": f"{DEFAULT_HOST.bandwidth / 1e9:g}GB/s",
    "latency": f"{DEFAULT_HOST.latency * 1e6:g}us",
}
"""What virtual devices communicate through, whatever their tree."""


def derived(offer: NodeOffer, nic: Link | None = None) -> ConfigurationSet:
    """Return the configuration set of a node that only its offer describes, with this network card.

    Equal hardware gets the same name on every node and after every restart, other hardware another:
    `8xH100-3f29c1`.
    """
    alike = replace(offer, memory=rounded(offer.memory), device_memory=rounded(offer.device_memory))
    kind = described("derived", alike)
    return named_by_content(replace(kind, nic=nic or kind.nic), _label(offer))


def described(name: str, offer: NodeOffer) -> ConfigurationSet:
    """Return the configuration set of an offer; FieldError where it cannot be described.

    Groups of devices that do not nest or are uneven give a simpler tree, which is true as well.
    """
    entry = _entry(offer)
    trees = _trees(offer) if offer.devices else [{}]
    for tree in trees[:-1]:
        try:
            return _configured(name, entry | tree)
        except FieldError:
            continue
    return _configured(name, entry | trees[-1])


def named_by_content(kind: ConfigurationSet, label: str) -> ConfigurationSet:
    """Return the set under a name that only equal sets share."""
    content = repr(replace(kind, name=""))
    digest = hashlib.sha256(content.encode()).hexdigest()[:DIGITS]
    return replace(kind, name=f"{label[: 62 - DIGITS]}-{digest}")


def _label(offer: NodeOffer) -> str:
    if offer.devices:
        return f"{offer.devices}x{offer.device_type or VIRTUAL}"
    return f"{offer.millicores // 1000}c"


def rounded(size: int) -> int:
    """Return a size rounded down to its leading bits."""
    dropped = max(0, size.bit_length() - KEPT_BITS)
    return size >> dropped << dropped


def _configured(name: str, entry: dict[str, Any]) -> ConfigurationSet:
    # Imported only now: they need pydantic, which takes as long to load as all else here.
    from muster.files.cluster.cluster_entries import ConfigurationEntry
    from muster.files.cluster.configurations import configuration_of

    return configuration_of(name, ConfigurationEntry.model_validate(entry))


def _entry(offer: NodeOffer) -> dict[str, Any]:
    """Return all but the tree, as text, which is what fields of a cluster file are read from."""
    entry: dict[str, Any] = {
        "cores": f"{offer.millicores / 1000:g}",
        "memory": f"{offer.memory}B",
    }
    if offer.bandwidth:
        entry["nic"] = f"{offer.bandwidth}B/s"
    if not offer.devices:
        return entry
    entry |= {
        "device": offer.device_type or VIRTUAL,
        "devices": str(offer.devices),
        "device_memory": f"{offer.device_memory}B",
    }
    return entry | _made_of_cores(offer) if offer.virtual else entry


def _made_of_cores(offer: NodeOffer) -> dict[str, Any]:
    """Return what virtual devices have: equal parts of the cores and the memory."""
    rate = rate_of_cores(offer.millicores / 1000 / offer.devices)
    return {
        "device_memory": f"{offer.device_memory or offer.memory // offer.devices}B",
        "device_rate": f"{rate.single / 1e9:.6f}G",
        "device_bandwidth": f"{rate.memory / 1e9:.6f}GB/s",
        "links": dict.fromkeys(("switch", "socket", "node"), _LOOPBACK),
    }


def _trees(offer: NodeOffer) -> list[dict[str, Any]]:
    """Return trees of the devices, the most detailed first; the last one always nests."""
    tree: dict[str, Any] = {"sockets": str(offer.sockets)}
    if offer.switches:
        tree["switches"] = [str(size) for size in offer.switches]
    nvlink = {"group": str(offer.nvlink), "bandwidth": f"{offer.nvlink_rate}GB/s"}
    return [*([tree | {"nvlink": nvlink}] if offer.nvlink and offer.nvlink_rate else []), tree, {}]
