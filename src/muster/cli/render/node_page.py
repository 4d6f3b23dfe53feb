"""`muster node show`: one node in detail."""

from collections.abc import Iterator

from muster.cli.render.node_table import health_word, leaving_lines
from muster.cli.render.table import table
from muster.cli.render.terminal import bold, painted
from muster.cli.render.words import clock, counted, size, when
from muster.wire.api.records import NodeHealth, NodeRecord, UplinkRecord


def node_page(node: NodeRecord, now: float) -> str:
    """Render where a node is, what it has, its tasks and how it is."""
    since = "" if node.since is None else f", {when(node.since, now)}"
    lines = [f"{bold(node.name)}, {painted(node.state)}{since}", ""]
    lines += [f"  {name:<12}{text}" for name, text in _facts(node, now)]
    lines += [f"  {line}" for line in leaving_lines([node])]
    if node.tasks:
        lines += ["", bold("Tasks"), _tasks(node)]
    return "\n".join(lines)


def _facts(node: NodeRecord, now: float) -> Iterator[tuple[str, str]]:
    if node.why:
        yield "why", node.why
    if node.until is not None:
        yield "empty", when(node.until, now)
    devices = f"{node.devices} {node.device_type}" if node.devices else "no devices"
    virtual = " made of CPU cores" if node.virtual and node.devices else ""
    yield "has", f"{devices}{virtual}, {node.cores:g} cores, {size(node.memory)} of memory"
    yield "free", f"{node.free} of {node.devices}  {node.bitmap}".rstrip()
    yield "counts as", f"{node.configuration} in rack {node.rack}, domain {node.domain}"
    yield from _agent(node)
    if node.uplink is not None:
        yield "network", _network(node.uplink, now)
    if node.labels:
        yield "labels", ", ".join(f"{key}={value}" for key, value in sorted(node.labels.items()))
    if node.health is not None:
        yield from _health(node.health)
    if node.connected is not None:
        yield "health", node.trouble or health_word(node)
    yield "jobs", ", ".join(node.jobs) or "-"


def _agent(node: NodeRecord) -> Iterator[tuple[str, str]]:
    if node.connected is None:
        return
    said = "connected" if node.connected else "not connected"
    yield "agent", f"{said}, brought by {node.engine}" if node.engine else said
    interface = f" ({node.interface})" if node.interface else ""
    ports = f", ports {node.ports[0]}-{node.ports[1]}" if node.ports else ""
    yield "address", f"{node.address or '-'}{interface}{ports}"
    yield "tasks as", node.user or "their submitters"


def _network(uplink: UplinkRecord, now: float) -> str:
    claimed = f"{size(round(uplink.claimed))}/s claimed"
    if uplink.learnt is None:
        return f"{claimed}, not measured"
    rests = f"{counted(uplink.reports, 'measurement')}, last {when(uplink.at, now)}"
    avoided = "; jobs over several nodes are laid out by this" if uplink.odd else ""
    return f"{claimed}, {size(round(uplink.learnt))}/s measured ({rests}){avoided}"


def _health(health: NodeHealth) -> Iterator[tuple[str, str]]:
    free = {"memory": health.memory_free, "disk": health.disk_free}
    yield from ((name, f"{size(count)} free") for name, count in free.items() if count is not None)
    if health.load is not None:
        yield "load", f"{health.load:.1f}, measured {clock(health.age)} ago"
    if health.temperature is not None:
        limit = "" if health.slowdown is None else f", slows down at {health.slowdown:.0f} °C"
        yield "hottest", f"{health.temperature:.0f} °C{limit}"
        yield "errors", f"{counted(health.ecc, 'uncorrected memory error')}, Xid {_xids(health)}"
        yield "clocks", f"lowered by {health.throttled}" if health.throttled else "not lowered"


def _xids(health: NodeHealth) -> str:
    return ", ".join(map(str, health.xids)) or "none"


def _tasks(node: NodeRecord) -> str:
    rows = [
        (str(each.number), each.job, each.task, ",".join(map(str, each.devices)) or "-")
        for each in node.tasks
    ]
    return table(("ID", "JOB", "TASK", "DEVICES"), rows, left=(1, 2, 3))
