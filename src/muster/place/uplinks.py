"""Keep jobs over several nodes off links that were learnt to be slow, where others are to be had.

Gradients move at the pace of the slowest link of a job. So a placement over nodes is compared with the
one that the same strategy gives without its slowest nodes, and the one whose slowest link is faster is
taken, though it may span more of the network. Nothing waits for a better link: where only slow ones are
left they are used, and measured again.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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


def around_slow(strategy: Strategy, uplinks: Mapping[str, float]) -> Strategy:
    """Return the strategy that leaves out slow links; `uplinks`: bytes/s of nodes, where learnt."""

    def place(board: Board, request: Request) -> Placement | None:
        best = strategy(board, request)
        for _ in range(TRIED):
            if best is None or len(best.nodes()) == 1:
                return best
            slowest = _slowest(board.cluster, best, uplinks)
            slow = [name for name in uplinks if _rate(board.cluster, name, uplinks) <= slowest]
            if not slow or not set(slow) & set(best.nodes()):
                return best
            with board.hidden(slow):
                other = strategy(board, request)
            if other is None or _slowest(board.cluster, other, uplinks) <= slowest:
                return best
            best = other
        return best

    return place


@contextmanager
def without_slow(board: Board, uplinks: Mapping[str, float], held: Placement) -> Iterator[None]:
    """Hide the nodes inside the `with` that would slow a job down which grows from what it holds."""
    own = held.nodes()
    least = TOO_SLOW * min((_rate(board.cluster, name, uplinks) for name in own), default=0.0)
    slow = [n for n in uplinks if n not in own and _rate(board.cluster, n, uplinks) < least]
    with board.hidden(slow):
        yield


def _slowest(cluster: Cluster, placement: Placement, uplinks: Mapping[str, float]) -> float:
    """Return the bytes/s of the slowest link that a placement uses; inf inside one node."""
    nodes = set(placement.nodes())
    if len(nodes) == 1:
        return inf
    level = span(cluster, nodes)
    above = (cluster.links[each].bandwidth for each in (Level.DOMAIN, Level.CLUSTER) if each <= level)
    return min(*(_rate(cluster, name, uplinks) for name in nodes), *above)


def _rate(cluster: Cluster, name: str, uplinks: Mapping[str, float]) -> float:
    if name not in cluster.index:
        return inf
    known = uplinks.get(name)
    kind = cluster.node(name).configuration
    return prior(cluster, LinkClass(Wire.NIC, kind)).bandwidth if known is None else known
