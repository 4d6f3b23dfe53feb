"""`muster node list`: a row for each node; columns that say nothing of any node are left out."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.cli.render.table import table
from muster.cli.render.terminal import painted
from muster.cli.render.words import clock, size, when
from muster.wire.api.records import LeavingRecord, NodeRecord


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    cell: Callable[[NodeRecord, float], str]
    left: bool = False
    if_any: Callable[[NodeRecord], bool] | None = None
    """Shown only if this is so of a node."""
    wide: bool = False


def _with_agent(node: NodeRecord) -> bool:
    return node.connected is not None


def _is_measured(node: NodeRecord) -> bool:
    return node.health is not None


_COLUMNS = (
    _Column("NODE", lambda node, _: node.name, left=True),
    _Column("STATE", lambda node, _: painted(node.state), left=True),
    _Column("EMPTY", lambda n, now: when(n.until, now), True, lambda n: n.until is not None),
    _Column("ENGINE", lambda node, _: node.engine or "-", True, _with_agent),
    _Column("ADDRESS", lambda node, _: node.address or "-", True, _with_agent),
    _Column("RACK", lambda node, _: node.rack, True, _with_agent, wide=True),
    _Column("TYPE", lambda node, _: node.device_type or "CPU", left=True),
    _Column("DEVICES", lambda node, _: str(node.devices)),
    _Column("FREE", lambda node, _: str(node.free)),
    _Column("MAP", lambda node, _: node.bitmap or "-", left=True),
    _Column("HEALTH", lambda node, _: health_word(node), True, _with_agent),
    _Column("TEMP", lambda node, _: temperature(node), False, _is_measured, wide=True),
    _Column("LOAD", lambda node, _: _load(node), False, _is_measured, wide=True),
    _Column("DISK FREE", lambda node, _: _disk(node), False, _is_measured, wide=True),
    _Column("NETWORK", lambda node, _: _network(node), False, lambda n: _is_odd(n)),
    _Column("CORES", lambda node, _: f"{node.cores:g}", wide=True),
    _Column("MEMORY", lambda node, _: f"{node.memory / 1e9:,.0f} GB", wide=True),
    _Column("JOBS", lambda node, _: ",".join(node.jobs) or "-", left=True),
    _Column("WHY", lambda n, now: why(n, now) or "-", True, lambda n: bool(n.why or n.trouble)),
)


def node_table(nodes: Sequence[NodeRecord], *, wide: bool = False) -> str:
    """Return nodes as a table."""
    now = time.time()
    shown = [
        column
        for column in _COLUMNS
        if (wide or not column.wide) and (column.if_any is None or any(map(column.if_any, nodes)))
    ]
    rows = [tuple(column.cell(node, now) for column in shown) for node in nodes]
    left = tuple(place for place, column in enumerate(shown) if column.left)
    return table(tuple(column.heading for column in shown), rows, left=left)


def _is_odd(node: NodeRecord) -> bool:
    return node.uplink is not None and node.uplink.odd


def _network(node: NodeRecord) -> str:
    """Return the measured speed of a node's link, with what is claimed of it if that differs."""
    if node.uplink is None or node.uplink.learnt is None:
        return "-"
    claimed = f" of {size(round(node.uplink.claimed))}/s" if node.uplink.odd else ""
    return f"{size(round(node.uplink.learnt))}/s{claimed}"


def health_word(node: NodeRecord) -> str:
    """Return how a node is in a word."""
    if node.connected is None:
        return "-"
    if not node.connected:
        return "no agent"
    return "bad" if node.trouble else "ok"


def why(node: NodeRecord, now: float) -> str:
    """Return why a node is out, and since when; else what is wrong with it."""
    if not node.why or node.since is None:
        return node.why or node.trouble
    return f"{node.why} ({when(node.since, now)})"


def temperature(node: NodeRecord) -> str:
    """Return the temperature of the hottest device."""
    hottest = node.health.temperature if node.health else None
    return "-" if hottest is None else f"{hottest:.0f} °C"


def _load(node: NodeRecord) -> str:
    load = node.health.load if node.health else None
    return "-" if load is None else f"{load:.1f}"


def _disk(node: NodeRecord) -> str:
    free = node.health.disk_free if node.health else None
    return "-" if free is None else size(free)


def leaving_lines(nodes: Sequence[NodeRecord]) -> list[str]:
    """Say what becomes of the jobs on draining nodes, each job once."""
    found = {each.number: each for node in nodes for each in node.leaving}
    return [f"job {each.number} ({each.name}) {_fate(each)}" for each in found.values()]


def _fate(leaving: LeavingRecord) -> str:
    now = time.time()
    at = None if leaving.at is None else when(leaving.at, now) if leaving.at > now else "at once"
    match leaving.how:
        case "moves":
            return "moves to other nodes live"
        case "ends":
            return "stays until it ends" if at is None else f"stays until it ends, about {at}"
        case "stays":
            return "has nowhere to move: it stays until other nodes have room or it ends"
        case "queues":
            return (
                f"has nowhere to move: it is checkpointed and goes back to the queue {at}, "
                "unless other nodes have room or it ends before"
            )
        case "restarts":
            return f"is checkpointed and moved {at}, unless it ends before"
        case _:
            lost = clock(leaving.lost or 0.0)
            return f"has no checkpoint: unless it ends before, it stops {at} and loses {lost} of work"
