"""`muster node show`: one node in detail."""

from collections.abc import Iterator

from muster.cli.render.node_table import health_word, leaving_lines
from muster.cli.render.table import table
from muster.cli.render.terminal import bold, painted
from muster.cli.render.words import clock, size, when
from muster.wire.records import DeviceHealth, NodeHealth, NodeRecord


def node_page(node: NodeRecord, now: float) -> str:
    """Render where a node is, what it has, its tasks and how it is."""
    since = "" if node.since is None else f", {when(node.since, now)}"
    lines = [f"{bold(node.name)}, {painted(node.state)}{since}", ""]
    lines += [f"  {name:<12}{text}" for name, text in _facts(node, now)]
    lines += [f"  {line}" for line in leaving_lines([node])]
    for title, part in (("Tasks", _tasks(node)), ("Devices", _devices(node.health))):
        if part:
            lines += ["", bold(title), part]
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


def _health(health: NodeHealth) -> Iterator[tuple[str, str]]:
    for name, free, total in (
        ("memory", health.memory_free, health.memory_total),
        ("disk", health.disk_free, health.disk_total),
    ):
        if free is not None:
            of = f" of {size(total)}" if total else ""
            yield name, f"{size(free)}{of} free"
    if health.load is not None:
        yield "load", f"{health.load:.1f}, measured {clock(health.age)} ago"


def _tasks(node: NodeRecord) -> str:
    if not node.tasks:
        return ""
    rows = [
        (str(each.number), each.job, each.task, ",".join(map(str, each.devices)) or "-")
        for each in node.tasks
    ]
    return table(("ID", "JOB", "TASK", "DEVICES"), rows, left=(1, 2, 3))


_READINGS = ("DEVICE", "TEMP", "POWER", "USED", "MEMORY", "CLOCK", "SLOWED BY", "ECC", "XID")


def _devices(health: NodeHealth | None) -> str:
    if health is None or not health.devices:
        return ""
    return table(_READINGS, [_row(i, each) for i, each in enumerate(health.devices)], left=(6,))


def _row(number: int, device: DeviceHealth) -> tuple[str, ...]:
    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else form.format(value)

    return (
        str(number),
        shown(device.temperature, "{:.0f} °C"),
        shown(device.power, "{:.0f} W"),
        shown(device.used, "{:.0%}"),
        "-" if device.memory is None else size(device.memory),
        shown(device.clock, "{:.0%}"),
        ", ".join(device.slowed) or "-",
        str(device.ecc),
        "-" if device.xid is None else str(device.xid),
    )
