"""Links that are not what the cluster file claims: what they do to jobs, and what jobs show of them.

A node's link carries a part of what is claimed. A job over several nodes synchronises at the pace of
its slowest: a step of T s with S of it for synchronising takes T + S (1 / part - 1). Its tasks report
what passed between its nodes, around a ring, to the learner that the daemon uses.
"""

from collections.abc import Mapping
from itertools import pairwise
from random import Random

from muster.model.cluster import Cluster
from muster.perf.history.hops import Hops, HopSeen, odd
from muster.perf.wires import LinkClass, Wire, prior
from muster.sim.life import Life

TrueLinks = Mapping[str, float]
"""By node: the part of the claimed bandwidth that its link carries; the others are as claimed."""

SHARE = 0.3
"""Part of the step of a job over several nodes that it synchronises, if it does not say: that of
ResNet-50 on two nodes with 10 Gbit/s (docs/explanation/performance.md)."""


class Crossings:
    """The true links, and what jobs have shown of them."""

    def __init__(self, true: TrueLinks, *, learns: bool, seed: int, noise: float) -> None:
        self._true, self._learns = true, learns
        self._seed, self._noise = seed, noise
        self.hops = Hops()
        self._figured: tuple[int, float] = (0, 0.0)
        self._odd: dict[str, float] = {}

    def drag(self, life: Life) -> float:
        """Return the factor by which slow links lengthen a job's steps."""
        if not self._true or life.crew is None or life.placement is None:
            return 1.0
        nodes = life.placement.nodes()
        slowest = min((self._true.get(node, 1.0) for node in nodes), default=1.0)
        if len(nodes) == 1 or slowest == 1.0:
            return 1.0
        shown = life.truth.shown(life.crew, life.done)
        share = SHARE if shown.sync is None else min(1.0, shown.sync / shown.step)
        return 1.0 + share * (1.0 / slowest - 1.0)

    def watch(self, life: Life, cluster: Cluster, now: float) -> None:
        """Take in what a running job reports of the hops between its nodes."""
        if not self._true or not self._learns or life.placement is None:
            return
        nodes = sorted(life.placement.nodes(), key=lambda name: cluster.index[name])
        if len(nodes) == 1:
            return
        random = Random(f"{self._seed}/{life.job.name}/hops/{now}")
        for source, target in pairwise((*nodes, nodes[0])):
            rate = min(self._rate(cluster, source), self._rate(cluster, target))
            noisy = rate * random.lognormvariate(0.0, self._noise)
            self.hops.add(HopSeen(source, target, noisy, now))

    def uplinks(self, cluster: Cluster, now: float) -> Mapping[str, float]:
        """Return the nodes whose links are believed to differ from the cluster file."""
        if self._figured != (self.hops.version, now):
            self._figured = self.hops.version, now
            self._odd = odd(self.hops.nodes(cluster, now), cluster)
        return self._odd

    def _rate(self, cluster: Cluster, name: str) -> float:
        link = LinkClass(Wire.NIC, cluster.node(name).configuration)
        return self._true.get(name, 1.0) * prior(cluster, link).bandwidth
