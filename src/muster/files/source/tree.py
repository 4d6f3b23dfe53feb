"""The tree inside a node: switches, sockets and NVLink groups as layers of bitmaps."""

from itertools import accumulate
from typing import TYPE_CHECKING

from muster.files.errors import FieldError
from muster.model.topology import Layer, Level, Link, each_bit

if TYPE_CHECKING:  # they need pydantic, and who only wants the links does not
    from muster.files.cluster.cluster_entries import ConfigurationEntry, NvlinkEntry
    from muster.files.source.fields import LinkEntry

DEFAULT_LINKS = {
    # PCIe 3.0 x16 carries 15.75 GB/s on paper and about 12 GB/s in practice; through the socket's
    # own root and then across to the other socket less gets through and later.
    Level.SWITCH: Link(12e9, 5e-6),
    Level.SOCKET: Link(10e9, 7e-6),
    Level.NODE: Link(8e9, 10e-6),
    # 10 Gbit/s Ethernet, racks with one uplink of 40 Gbit/s and domains with one of 100 Gbit/s; each
    # layer of network switches adds to the latency.
    Level.RACK: Link(1.25e9, 25e-6),
    Level.DOMAIN: Link(5e9, 50e-6),
    Level.CLUSTER: Link(12.5e9, 100e-6),
}
DEFAULT_NIC = Link(1.25e9, 10e-6)


def link_of(entry: "LinkEntry", default: Link) -> Link:
    """Return the link of an entry, missing values from the default."""
    bandwidth = default.bandwidth if entry.bandwidth is None else entry.bandwidth
    latency = default.latency if entry.latency is None else entry.latency
    return Link(bandwidth, latency)


def layers_of(entry: "ConfigurationEntry") -> tuple[Layer, ...]:
    """Return the layers of a node with devices, narrow to wide: switch, socket, node, and NVLink's."""
    switches = _consecutive(_switch_sizes(entry))
    per_socket = len(switches) // entry.sockets
    sockets = tuple(sum(switches[i : i + per_socket]) for i in range(0, len(switches), per_socket))
    tree = (
        Layer(Level.SWITCH, switches, link_of(entry.links.switch, DEFAULT_LINKS[Level.SWITCH])),
        Layer(Level.SOCKET, sockets, link_of(entry.links.socket, DEFAULT_LINKS[Level.SOCKET])),
        Layer(Level.NODE, (sum(sockets),), link_of(entry.links.node, DEFAULT_LINKS[Level.NODE])),
    )
    return tree if entry.nvlink is None else _with_nvlink(tree, entry.nvlink, entry.devices)


def _switch_sizes(entry: "ConfigurationEntry") -> list[int]:
    """Return the devices under each switch."""
    if isinstance(entry.switches, tuple):
        return _listed_sizes(entry, entry.switches)
    count = entry.sockets if entry.switches is None else entry.switches
    _refuse_uneven_switches(count, entry.sockets)
    if entry.devices % count:
        part = "sockets" if entry.switches is None else "switches"
        problem = f"{entry.devices} devices cannot be divided evenly over {count} {part}"
        raise FieldError(
            (part,), f"{problem}; list the devices under each switch, for example [2, 2, 4]"
        )
    return [entry.devices // count] * count


def _listed_sizes(entry: "ConfigurationEntry", sizes: tuple[int, ...]) -> list[int]:
    if sum(sizes) != entry.devices:
        problem = f"the list adds up to {sum(sizes)} devices, but the node has {entry.devices}"
        raise FieldError(("switches",), problem)
    _refuse_uneven_switches(len(sizes), entry.sockets)
    return list(sizes)


def _refuse_uneven_switches(switches: int, sockets: int) -> None:
    if switches % sockets:
        problem = f"the number of switches, {switches}, is not a multiple of the sockets, {sockets}"
        raise FieldError(("switches",), problem)


def _consecutive(sizes: list[int]) -> tuple[int, ...]:
    """Return bitmaps of these sizes, consecutive from device 0."""
    ends = accumulate(sizes)
    return tuple(((1 << size) - 1) << (end - size) for size, end in zip(sizes, ends, strict=True))


def _with_nvlink(tree: tuple[Layer, ...], nvlink: "NvlinkEntry", devices: int) -> tuple[Layer, ...]:
    """Insert NVLink's layer before the first layer whose groups hold whole NVLink groups."""
    if devices % nvlink.group:
        problem = f"{devices} devices cannot be divided evenly into groups of {nvlink.group}"
        raise FieldError(("nvlink", "group"), problem)
    groups = _consecutive([nvlink.group] * (devices // nvlink.group))
    place = next(i for i, layer in enumerate(tree) if _inside(groups, layer.groups))
    for layer in tree[:place]:
        _refuse_crossing(layer, groups)
    link = Link(nvlink.bandwidth, nvlink.latency)
    return (*tree[:place], Layer(tree[place].level, groups, link), *tree[place:])


def _inside(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    return all(any(a & ~b == 0 for b in outer) for a in inner)


def _refuse_crossing(layer: Layer, groups: tuple[int, ...]) -> None:
    """Refuse NVLink groups that cut through a narrower layer: layers must nest."""
    for part in layer.groups:
        if not _inside((part,), groups):
            numbers = ", ".join(str(device) for device in each_bit(part))
            problem = (
                f"groups of {groups[0].bit_count()} devices cut through the {layer.level.word} of "
                f"devices {numbers}; make groups that lie inside every {layer.level.word} "
                "or hold whole ones"
            )
            raise FieldError(("nvlink", "group"), problem)
