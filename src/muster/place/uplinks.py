"""Keep jobs over several nodes off slow links, where others are to be had.

Gradients move at the pace of the slowest link of a job. So a placement over nodes is compared with the
one that the same strategy gives without its slowest nodes, and the one whose slowest link is faster is
taken, though it may span more of the network. Nothing waits for a better link: where only slow ones are
left they are used, and measured again.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from muster.model.cluster import Cluster, span
from muster.model.placement import Placement
from muster.model.topology import Level
from muster.perf.wires import LinkClass, Wire, prior
from muster.place.board import Board
from muster.place.request import Request, Strategy

TOO_SLOW = 0.5
"""A job does not grow onto a link slower than this part of its slowest: with two workers or more it
would lose more than it wins, unless it hardly communicates."""

TRIED = 3
"""Times that the slowest nodes are left out: more differ little."""


@dataclass(frozen=True, slots=True)
class Uplinks:
    """The links of nodes, in bytes/s: the fastest, and those that are slower."""

    most: float
    slower: Mapping[str, float]

    def rate(self, node: str) -> float:
        """Return the bytes/s of a node's link."""
        return self.slower.get(node, self.most)

    def below(self, rate: float) -> list[str]:
        """Return the nodes with links no faster than this."""
        return [node for node, own in self.slower.items() if own <= rate]


def uplinks_of(cluster: Cluster, learnt: Mapping[str, float]) -> Uplinks:
    """Return the links of all nodes, as learnt, else as claimed."""
    claimed = {
        kind: prior(cluster, LinkClass(Wire.NIC, kind)).bandwidth for kind in cluster.configurations
    }
    most = max(claimed.values(), default=0.0)
    slower = {name: rate for name, rate in learnt.items() if rate < most}
    if len(set(claimed.values())) > 1:
        for node in cluster.nodes:
            if node.name not in learnt and claimed[node.configuration] < most:
                slower[node.name] = claimed[node.configuration]
    return Uplinks(most, slower)


def around_slow(strategy: Strategy, uplinks: Uplinks) -> Strategy:
    """Return the strategy that leaves out slow links."""

    def place(board: Board, request: Request) -> Placement | None:
        best = strategy(board, request)
        for _ in range(TRIED):
            if best is None or len(best.nodes()) == 1:
                return best
            slowest = slowest_link(board.cluster, best, uplinks)
            slow = uplinks.below(slowest)
            if not best.nodes() & set(slow):
                return best
            with board.hidden(slow):
                other = strategy(board, request)
            if other is None or slowest_link(board.cluster, other, uplinks) <= slowest:
                return best
            best = other
        return best

    return place


@contextmanager
def without_slow(board: Board, uplinks: Uplinks, held: Placement) -> Iterator[None]:
    """Hide the nodes inside the `with` that would slow a job down which grows from what it holds."""
    least = TOO_SLOW * min((uplinks.rate(name) for name in held.nodes()), default=0.0)
    with board.hidden(uplinks.below(least)):
        yield


def slowest_link(cluster: Cluster, placement: Placement, uplinks: Uplinks) -> float:
    """Return the bytes/s of the slowest link that a placement uses; inf inside one node."""
    nodes = set(placement.nodes())
    if len(nodes) == 1:
        return inf
    level = span(cluster, nodes)
    above = (cluster.links[each].bandwidth for each in (Level.DOMAIN, Level.CLUSTER) if each <= level)
    return min(*(uplinks.rate(name) for name in nodes), *above)
