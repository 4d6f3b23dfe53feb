"""Nodes that come and go: from a file, or drawn by the seed."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from muster.files.errors import InputError, one_of
from muster.model.cluster import Cluster
from muster.model.event import NodeDraining, NodeEvent, NodeLost, NodeReturned
from muster.sim.scenario.configuration import Failures
from muster.sim.trace.columns import parse_any_seconds

HEADER = ("at", "node", "event")
BY = "by"
"""Optional fourth column: how long after its drain a node must be empty."""
MOST = 1_000_000
"""Most incidents drawn: with more, a run would be nothing but failures."""

_EVENTS: dict[str, type[NodeLost] | type[NodeReturned] | type[NodeDraining]] = {
    "lost": NodeLost,
    "returned": NodeReturned,
    "draining": NodeDraining,
}


def read_incidents(path: Path, cluster: Cluster) -> tuple[NodeEvent, ...]:
    """Read the incidents of a CSV `at,node,event[,by]`, by time; InputError is one line."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            heading = tuple(cell.strip() for cell in next(reader, ()))
            if heading not in (HEADER, (*HEADER, BY)):
                raise InputError.at(str(path), f"the first line must be: {','.join(HEADER)}", line=1)
            rows = filter(None, reader)
            width = len(heading)
            found = [_incident(path, reader.line_num, row, cluster, width) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError.at(str(path), f"cannot be read: {error}") from None
    return tuple(sorted(found, key=lambda event: event.at))


def _incident(path: Path, line: int, row: Sequence[str], cluster: Cluster, width: int) -> NodeEvent:
    def wrong(problem: str, field: str = "") -> InputError:
        return InputError.at(str(path), problem, line=line, field=field)

    cells = [cell.strip() for cell in row]
    if len(cells) != width:
        raise wrong(f"has {len(cells)} values instead of {width}")
    at, node, event, *rest = cells
    by = "".join(rest)
    if node not in cluster.index:
        raise wrong(one_of(node, "node of the cluster", list(cluster.index)[:20]), "node")
    if event not in _EVENTS:
        raise wrong(one_of(event, "event", _EVENTS), "event")
    try:
        moment = parse_any_seconds(at)
    except ValueError as error:
        raise wrong(str(error), "at") from None
    if not by:
        return _EVENTS[event](node, moment)
    if event != "draining":
        raise wrong("only a draining node has a deadline", BY)
    try:
        return NodeDraining(node, moment, moment + parse_any_seconds(by))
    except ValueError as error:
        raise wrong(str(error), BY) from None


def drawn(cluster: Cluster, failures: Failures, seed: int, horizon: float) -> tuple[NodeEvent, ...]:
    """Draw failures of every node up to the horizon; a node lost then still returns."""
    expected = 2 * len(cluster.nodes) * horizon / (failures.mtbf + failures.repair)
    if expected > MOST:
        raise InputError.at(
            "--failures",
            f"some {expected:,.0f} incidents in {horizon / 86400:,.0f} days; "
            "give a longer mtbf, or end sooner with --until",
        )
    found = [event for node in cluster.nodes for event in _of_node(node.name, failures, seed, horizon)]
    return tuple(sorted(found, key=lambda event: (event.at, event.node)))


def _of_node(
    node: str, failures: Failures, seed: int, horizon: float
) -> Iterator[NodeLost | NodeReturned]:
    # A stream for each node: adding or removing a node keeps the others' failures.
    random = Random(f"{seed}/failures/{node}")
    now = random.expovariate(1 / failures.mtbf)
    while now < horizon:
        yield NodeLost(node, now)
        now += random.expovariate(1 / failures.repair)
        yield NodeReturned(node, now)
        now += random.expovariate(1 / failures.mtbf)
