"""What a node has, has left and is, as values: for `evolve`."""

from dataclasses import replace

from muster.model.cluster import Node, NodeState
from muster.model.event import NodeDraining
from muster.model.placement import Slot
from muster.model.renew import renewer
from muster.model.topology import ConfigurationSet

renewed_node = renewer(Node)


def contents(kind: ConfigurationSet) -> tuple[str, int, int, int]:
    """Return what nodes of the set have; the rest only describes how it is connected."""
    return (kind.device_type, kind.devices, kind.millicores, kind.memory)


def described(kind: ConfigurationSet) -> str:
    return f"{kind.devices} {kind.device_type}, {kind.millicores} millicores, {kind.memory} bytes"


def lacking(node: Node, slot: Slot) -> str:
    """Return what the node lacks for the slot; empty: nothing."""
    if node.state is NodeState.LOST:
        return "is lost"
    if busy := slot.bits & ~node.free:
        return f"does not have devices {busy:#b} free"
    if slot.need.millicores > node.millicores:
        return f"has {node.millicores} millicores free, not {slot.need.millicores}"
    if slot.need.memory > node.memory:
        return f"has {node.memory} bytes of memory free, not {slot.need.memory}"
    return ""


def with_taken(node: Node, slot: Slot) -> Node:
    return renewed_node(
        node,
        free=node.free & ~slot.bits,
        millicores=node.millicores - slot.need.millicores,
        memory=node.memory - slot.need.memory,
    )


def nothing_free(node: Node) -> Node:
    return replace(node, free=0, millicores=0, memory=0)


def turned(node: Node, state: NodeState, at: float) -> Node:
    """Return the node in a state, since `at` if that is another."""
    return node if node.state is state else replace(node, state=state, since=at)


def due(node: Node, event: NodeDraining) -> Node:
    """Return the node with its deadline: the engine's last word or an administrator's, the earlier."""
    taken = event.until if event.taken else node.taken
    others = node.until if event.taken and node.until != node.taken else None
    own = others if event.taken else event.until
    if own is not None and (taken is None or own < taken):
        return replace(node, until=own, why=node.why if event.taken else event.why, taken=taken)
    why = event.why if event.taken or taken is None else node.why
    return replace(node, until=taken, why=why, taken=taken)
