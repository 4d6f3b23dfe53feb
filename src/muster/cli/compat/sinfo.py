"""`sinfo`: partitions, which are pools, and their nodes."""

from collections.abc import Mapping, Sequence

import typer

from muster.cli.compat.words import formatted, words_of
from muster.cli.connect import daemon
from muster.wire.api.records import NodeRecord, PoolRecord

USUAL = "%9P %.5a %.10l %.6D %.6t %N"
SUMMARY = "%9P %.5a %.10l %.16F %N"
BY_NODE = "%{width}N %.6D %.9P %6t"
HEADERS = {
    "P": "PARTITION",
    "R": "PARTITION",
    "a": "AVAIL",
    "l": "TIMELIMIT",
    "D": "NODES",
    "t": "STATE",
    "T": "STATE",
    "F": "NODES(A/I/O/T)",
    "N": "NODELIST",
    "n": "HOSTNAMES",
    "G": "GRES",
    "c": "CPUS",
    "m": "MEMORY",
    "C": "CPUS(A/I/O/T)",
}
_LONG = {
    "idle": "idle",
    "mix": "mixed",
    "alloc": "allocated",
    "drng": "draining",
    "drain": "drained",
    "down": "down",
}


def run_sinfo(words: Sequence[str]) -> None:
    """Print pools and nodes as `sinfo` does."""
    parser = words_of("sinfo")
    parser.add_argument("-h", "--noheader", action="store_true")
    parser.add_argument("-N", "--Node", action="store_true")
    parser.add_argument("-p", "--partition")
    parser.add_argument("-n", "--nodes")
    parser.add_argument("-o", "--format")
    parser.add_argument("-l", "--long", action="store_true")
    parser.add_argument("-s", "--summarize", action="store_true")
    parser.add_argument("-a", "--all", action="store_true")
    given = parser.parse_args(words)
    with daemon() as client:
        nodes = client.nodes()
        pools = [pool for pool in client.pools() if pool.leaf]
    if given.partition:
        pools = [pool for pool in pools if pool.name in given.partition.split(",")]
    if given.nodes:
        nodes = [node for node in nodes if node.name in given.nodes.split(",")]
    if given.summarize:
        rows = [_row(pool, "idle", nodes) for pool in pools if nodes]
    else:
        rows = [row for pool in pools for row in _rows(pool, nodes, each=given.Node)]
    pattern = given.format or _pattern(nodes, by_node=given.Node, summary=given.summarize)
    try:
        lines = formatted(pattern, HEADERS, rows, header=not given.noheader)
    except ValueError as error:
        parser.error(str(error))
    typer.echo("\n".join(lines))


def _pattern(nodes: Sequence[NodeRecord], *, by_node: bool, summary: bool) -> str:
    """The columns that Slurm prints; the first as wide as the longest name."""
    width = max((len(node.name) for node in nodes), default=0)
    return SUMMARY if summary else BY_NODE.format(width=max(width, 8)) if by_node else USUAL


def node_state(node: NodeRecord) -> str:
    """A node's state, in Slurm's short word."""
    busy = node.free < node.devices
    if node.state == "lost":
        return "down"
    if node.state == "draining":
        return "drng" if busy else "drain"
    return "idle" if not busy else "mix" if node.free else "alloc"


def _rows(pool: PoolRecord, nodes: Sequence[NodeRecord], *, each: bool) -> "list[Mapping[str, str]]":
    """A row for each node, or for the nodes of a state: every pool may use all nodes."""
    groups: dict[tuple[str, str], list[NodeRecord]] = {}
    for node in nodes:
        groups.setdefault((node_state(node), node.name if each else ""), []).append(node)
    return [_row(pool, word, found) for (word, _), found in groups.items()]


def _row(pool: PoolRecord, word: str, nodes: Sequence[NodeRecord]) -> Mapping[str, str]:
    states = [node_state(node) for node in nodes]
    busy, idle = sum(each in ("alloc", "mix") for each in states), states.count("idle")
    first, names = nodes[0], ",".join(node.name for node in nodes)
    cores = sum(int(node.cores) for node in nodes)
    return {
        "P": f"{pool.name}*" if pool.name == "default" else pool.name,
        "R": pool.name,
        "a": "up",
        "l": "infinite",
        "D": str(len(nodes)),
        "F": f"{busy}/{idle}/{len(nodes) - busy - idle}/{len(nodes)}",
        "t": word,
        "T": _LONG[word],
        "N": names,
        "n": names,
        "G": f"gpu:{first.device_type}:{first.devices}" if first.devices else "(null)",
        "c": str(int(first.cores)),
        "m": str(first.memory // 2**20),
        "C": f"0/{cores}/0/{cores}",
    }
