"""What Ray has lent: a value that says what to do when a node comes, is drained, dies or returns.

lent       Ray has the node, and its devices are held
missing    its raylet has died; its agent may be well, and a raylet of the same name may come
departing  Ray takes it back, or its raylet has stayed away: its jobs leave it
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from muster.ports import NodeDeparts, NodeGone

RETURN = 60.0
"""s in which a raylet may be restarted before its node is given up; its tasks run on meanwhile. Ray's
own raylets wait as long for their head."""
GRACE = 30.0
"""s for jobs to leave a node whose raylet stays away, or that Ray drains without a deadline."""


class Lease(StrEnum):
    """Where a node stands."""

    LENT = "lent"
    MISSING = "missing"
    DEPARTING = "departing"


@dataclass(frozen=True, slots=True)
class Bring:
    """Bring an agent to a node whose devices are held."""

    id: str


Effect = NodeDeparts | NodeGone | Bring
_NOTHING: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class LentNode:
    """A node by its name; its raylet has an id that changes."""

    name: str
    id: str
    lease: Lease = Lease.LENT
    until: float = 0.0
    """When the next thing happens to it, unless something else does."""
    why: str = ""
    waiting: str = ""
    """Id of a later raylet of this name, held; it waits until the node has left."""


Reaction = tuple["Lent", tuple[Effect, ...]]


@dataclass(frozen=True, slots=True)
class Lent:
    """All nodes that Ray has lent, by name. Times are in s, of any one clock."""

    nodes: Mapping[str, LentNode] = field(default_factory=dict)

    def held(self, name: str, id: str) -> Reaction:
        """A node's devices are held, and it has no agent that was brought there."""
        known = self.nodes.get(name)
        if known is not None and known.lease is Lease.DEPARTING:
            return self._with(replace(known, waiting=id)), ()
        return self._with(LentNode(name, id)), (Bring(id),)

    def kept(self, name: str, id: str) -> Reaction:
        """A node has the agent that an earlier daemon brought there."""
        return self._with(LentNode(name, id)), ()

    def drained(self, name: str, id: str, within: float | None, now: float) -> Reaction:
        """Ray will take a node back."""
        known = self.nodes.get(name)
        if known is None or known.id != id or known.lease is Lease.DEPARTING:
            return self, ()
        return self._depart(known, GRACE if within is None else within, "Ray drains it", now)

    def died(self, name: str, id: str, why: str, now: float) -> Reaction:
        """Ray has declared a node dead. That its agent lives is for the fleet to see."""
        known = self.nodes.get(name)
        if known is None:
            return self, ()
        if known.waiting == id:
            return self._with(replace(known, waiting="")), ()
        if known.id != id or known.lease is not Lease.LENT:
            return self, ()
        missing = replace(known, lease=Lease.MISSING, until=now + RETURN, why=f"Ray lost it: {why}")
        return self._with(missing), ()

    def passed(self, now: float, connected: frozenset[str] = frozenset()) -> Reaction:
        """Time has passed. A node whose agent is connected is not gone, whatever its deadline."""
        lent, effects = self, _NOTHING
        for node in self.nodes.values():
            if node.lease is Lease.LENT or now < node.until:
                continue
            if node.name not in connected:
                lent, more = lent._end(node)
            elif node.lease is Lease.MISSING:
                lent, more = lent._depart(node, GRACE, node.why, now)
            else:
                continue
            effects = (*effects, *more)
        return lent, effects

    def _depart(self, node: LentNode, within: float, why: str, now: float) -> Reaction:
        known = replace(node, lease=Lease.DEPARTING, until=now + within, why=why)
        return self._with(known), (NodeDeparts(node.name, within, why),)

    def _end(self, node: LentNode) -> Reaction:
        rest = {name: each for name, each in self.nodes.items() if name != node.name}
        gone = NodeGone(node.name, node.why)
        if not node.waiting:
            return Lent(rest), (gone,)
        return Lent({**rest, node.name: LentNode(node.name, node.waiting)}), (gone, Bring(node.waiting))

    def _with(self, node: LentNode) -> "Lent":
        return Lent({**self.nodes, node.name: node})
