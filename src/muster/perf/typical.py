"""A typical placement at each level: what a locality contract is compared with.

Inside a node the devices are as far apart as the level allows. Above it they fill nodes, at least two,
in one rack, in two racks or in two domains.
"""

from itertools import chain, zip_longest

from muster.model.job import Role
from muster.model.topology import ConfigurationSet, Layer, Level, each_bit
from muster.perf.shape import Host, Seat, Shape


def typical(kinds: tuple[ConfigurationSet, ...], level: Level, devices: int) -> Shape:
    """Return the shape of `devices` devices at a level, on one of these configuration sets."""
    if level > Level.NODE:
        return _over_nodes(max(kinds, key=lambda kind: kind.devices), level, devices)
    kind, group = _group(kinds, level, devices)
    seat = Seat(Role.WORKER, 0, _apart(kind, level, group, devices))
    return (Host(kind.name, 0, 0, (seat,)),)


def _group(
    kinds: tuple[ConfigurationSet, ...], level: Level, devices: int
) -> tuple[ConfigurationSet, int]:
    """Return the largest group at a level that holds the devices, else the largest node."""
    at = [(k, g) for k in kinds for layer in k.tree if layer.level == level for g in layer.groups]
    large = [(kind, group) for kind, group in at if group.bit_count() >= devices]
    nodes = [(kind, kind.all_devices) for kind in kinds]
    return max(large or nodes, key=lambda found: found[1].bit_count())


def _apart(kind: ConfigurationSet, level: Level, group: int, devices: int) -> int:
    """Take devices of a group in turn from the parts that the level joins."""
    below: tuple[Layer, ...] = tuple(layer for layer in kind.tree if layer.level < level)
    parts = [list(each_bit(part)) for part in (below[-1].groups if below else ()) if part & group]
    in_turn = chain.from_iterable(zip_longest(*parts)) if parts else each_bit(group)
    chosen = [device for device in in_turn if device is not None][:devices]
    return sum(1 << device for device in chosen)


def _over_nodes(kind: ConfigurationSet, level: Level, devices: int) -> Shape:
    nodes = max(2, -(-devices // kind.devices))
    even, more = divmod(devices, nodes)
    hosts = []
    for i in range(nodes):
        side = i * 2 // nodes
        rack = side if level > Level.RACK else 0
        domain = side if level > Level.DOMAIN else 0
        count = even + (i < more)
        hosts.append(Host(kind.name, rack, domain, (Seat(Role.WORKER, i, (1 << count) - 1),)))
    return tuple(hosts)
