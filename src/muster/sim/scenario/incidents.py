"""Nodes that come and go: from a file, or drawn by the seed.

The cluster file has all nodes there ever are. One whose first event is `joined` is not there at first.
A node that leaves takes its tasks with it: those that should not be lost need a drain before.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from muster.files.errors import InputError, one_of
from muster.model.cluster import Cluster
from muster.model.event import NodeAdded, NodeDraining, NodeEvent, NodeLeft, NodeLost, NodeReturned
from muster.sim.scenario.configuration import Failures
from muster.sim.trace.columns import parse_any_seconds

HEADER = ("at", "node", "event")
BY = "by"
"""Optional fourth column: how long after its drain a node must be empty."""
MOST = 1_000_000
"""Most incidents drawn: with more, a run would be nothing but failures."""

JOINED, LEFT = "joined", "left"
_EVENTS: dict[str, type[NodeLost] | type[NodeReturned] | type[NodeDraining]] = {
    "lost": NodeLost,
    "returned": NodeReturned,
    "draining": NodeDraining,
}
_NAMES = (*_EVENTS, JOINED, LEFT)


@dataclass(frozen=True, slots=True)
class Incident:
    """A line of the file."""

    at: float
    node: str
    event: str
    line: int
    until: float | None = None


def at_first(cluster: Cluster, incidents: Sequence[NodeEvent]) -> Cluster:
    """Return the cluster as it begins: without the nodes that join later, open if any come or go."""
    first: dict[str, NodeEvent] = {}
    for event in incidents:
        first.setdefault(_name(event), event)
    late = {name for name, event in first.items() if isinstance(event, NodeAdded)}
    if not late and not any(isinstance(event, NodeLeft) for event in incidents):
        return cluster
    nodes = tuple(node for node in cluster.nodes if node.name not in late)
    return replace(cluster, nodes=nodes, open=True)


def _name(event: NodeEvent) -> str:
    return event.node.name if isinstance(event, NodeAdded) else event.node


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
    found.sort(key=lambda incident: incident.at)
    _refuse_disorder(path, found)
    return tuple(event for incident in found for event in _events(incident, cluster))


def _refuse_disorder(path: Path, found: Sequence[Incident]) -> None:
    """Refuse a node that joins twice, or of which something is said while it is not there."""
    there: dict[str, bool] = {}
    for incident in found:
        joins = incident.event == JOINED
        if there.get(incident.node, not joins) == joins:
            problem = "is there already" if joins else "is not there then"
            raise InputError.at(
                str(path), f"{incident.node} {problem}", line=incident.line, field="node"
            )
        there[incident.node] = joins or incident.event != LEFT


def _events(incident: Incident, cluster: Cluster) -> Sequence[NodeEvent]:
    node, at = incident.node, incident.at
    if incident.event == JOINED:
        return (NodeAdded(cluster.node(node), at),)
    if incident.event == LEFT:
        return (NodeLost(node, at), NodeLeft(node, at))
    if incident.until is not None:
        return (NodeDraining(node, at, incident.until),)
    return (_EVENTS[incident.event](node, at),)


def _incident(path: Path, line: int, row: Sequence[str], cluster: Cluster, width: int) -> Incident:
    def wrong(problem: str, field: str = "") -> InputError:
        return InputError.at(str(path), problem, line=line, field=field)

    cells = [cell.strip() for cell in row]
    if len(cells) != width:
        raise wrong(f"has {len(cells)} values instead of {width}")
    at, node, event, *rest = cells
    by = "".join(rest)
    if node not in cluster.index:
        raise wrong(one_of(node, "node of the cluster", list(cluster.index)[:20]), "node")
    if event not in _NAMES:
        raise wrong(one_of(event, "event", _NAMES), "event")
    try:
        moment = parse_any_seconds(at)
    except ValueError as error:
        raise wrong(str(error), "at") from None
    if not by:
        return Incident(moment, node, event, line)
    if event != "draining":
        raise wrong("only a draining node has a deadline", BY)
    try:
        return Incident(moment, node, event, line, moment + parse_any_seconds(by))
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
