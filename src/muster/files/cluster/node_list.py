"""The nodes of a cluster file: ranges expanded and divided over racks and domains."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from muster.files.cluster.cluster_entries import NodeEntry
from muster.files.cluster.ranges import MAX_NAMES, expand
from muster.files.errors import FieldError, Loc, one_of, shown
from muster.files.source.yaml_source import Source
from muster.model.cluster import Node, NodeState
from muster.model.topology import ConfigurationSet


def nodes_of(
    entries: Mapping[str, NodeEntry], configurations: Mapping[str, ConfigurationSet], source: Source
) -> tuple[Node, ...]:
    """Return every node in the file's order; racks used in two domains get their domain's name."""
    if not entries:
        raise FieldError(("nodes",), "must name at least one node; write for example gpu[1-4]: box")
    nodes: list[Node] = []
    first_in: dict[str, str] = {}
    for pattern, entry in entries.items():
        found = _nodes_of_entry(pattern, entry, configurations)
        if len(nodes) + len(found) > MAX_NAMES:
            raise FieldError(("nodes", pattern), f"expands to more than {MAX_NAMES} nodes")
        for node in found:
            first = first_in.get(node.name)
            if first is not None:
                before = f"first as {first} on line {source.line(('nodes', first))}"
                problem = f"node {shown(node.name)} is given twice ({before})"
                raise FieldError(("nodes", pattern), problem)
            first_in[node.name] = pattern
        nodes.extend(found)
    return _with_unique_racks(nodes)


def _nodes_of_entry(
    pattern: str, entry: NodeEntry, configurations: Mapping[str, ConfigurationSet]
) -> list[Node]:
    """Return the nodes of one entry, everything on them free."""
    loc: Loc = ("nodes", pattern)
    if entry.configuration not in configurations:
        problem = one_of(entry.configuration, "configuration", configurations)
        raise FieldError((*loc, "configuration"), problem)
    kind = configurations[entry.configuration]
    names = _expanded(pattern, loc)
    racks = _dealt(entry.rack, len(names), (*loc, "rack"))
    domains = _dealt(entry.domain, len(names), (*loc, "domain"))
    _refuse_torn_racks(racks, domains, loc)
    return [
        Node(
            name=name,
            configuration=kind.name,
            rack=rack,
            domain=domain,
            free=kind.all_devices,
            millicores=kind.millicores,
            memory=kind.memory,
            state=NodeState(entry.state),
        )
        for name, rack, domain in zip(names, racks, domains, strict=True)
    ]


def _expanded(pattern: str, loc: Loc) -> tuple[str, ...]:
    try:
        return expand(pattern)
    except ValueError as error:
        raise FieldError(loc, str(error)) from None


def _dealt(pattern: str, count: int, loc: Loc) -> list[str]:
    """Return one name for each of `count` nodes, in order, divided evenly."""
    names = _expanded(pattern, loc)
    if len(names) > count:
        problem = f"{shown(pattern)} expands to {len(names)} names, more than the nodes ({count})"
        raise FieldError(loc, problem)
    return [names[i * len(names) // count] for i in range(count)]


def _refuse_torn_racks(racks: list[str], domains: list[str], loc: Loc) -> None:
    """Refuse a range of racks over a range of domains that splits a rack between domains."""
    if len(set(racks)) == 1:
        return  # one rack name in every domain: it gets the domain's name
    pairs = [pair for pair, _ in groupby(zip(racks, domains, strict=True))]
    if len(pairs) > len(set(racks)):
        problem = f"{len(set(racks))} racks cannot be divided evenly over {len(set(domains))} domains"
        raise FieldError((*loc, "rack"), problem)


def _with_unique_racks(nodes: list[Node]) -> tuple[Node, ...]:
    """Qualify rack names that two domains use as domain/rack."""
    domains: dict[str, set[str]] = {}
    for node in nodes:
        domains.setdefault(node.rack, set()).add(node.domain)
    shared = {rack for rack, used_in in domains.items() if len(used_in) > 1}
    return tuple(
        replace(node, rack=f"{node.domain}/{node.rack}") if node.rack in shared else node
        for node in nodes
    )
