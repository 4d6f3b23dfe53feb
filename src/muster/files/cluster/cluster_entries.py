"""The cluster file as written: its mappings, fields and defaults."""

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from muster.files.cluster.name_pattern import NamePattern, parse_pattern
from muster.files.cluster.place_template import PlaceTemplate, parse_template
from muster.files.source.fields import (
    CountsField,
    FileEntry,
    LinkEntry,
    LinkField,
    Name,
    Names,
    Number,
    Operations,
    Rate,
    Size,
    SomeCores,
    SomeSize,
    Time,
    optional,
    preset,
    scalar,
    short_for,
    single,
    text_schema,
    whole,
    whole_schema,
    word,
)
from muster.files.source.quantity import (
    MAX_PRIORITY,
    PoolAmount,
    parse_allowed,
    parse_pool_amount,
    parse_whole,
)
from muster.model.cluster import NodeState
from muster.model.pool import EVERY_TYPE, ROOT
from muster.model.topology import MAX_DEVICES

MAX_PLANNERS = 64
"""More than a daemon's machine has cores for."""

MAX_QUOTA = 10_000_000
"""More devices than any cluster has."""


def _switches(value: object) -> int | tuple[int, ...]:
    """Read a count of switches, or the devices under each."""
    if isinstance(value, list):
        return tuple(parse_whole(single(each), 1, MAX_DEVICES) for each in value)
    return parse_whole(single(value), 1, MAX_DEVICES)


_ONE_SWITCH = {"type": "integer", "minimum": 1, "maximum": MAX_DEVICES}
_SWITCHES = {"anyOf": [_ONE_SWITCH, {"type": "array", "items": _ONE_SWITCH, "minItems": 1}]}

DeviceCount = Annotated[int, whole(0, MAX_DEVICES), whole_schema(0, MAX_DEVICES)]
PartCount = Annotated[int, whole(1, MAX_DEVICES), whole_schema(1, MAX_DEVICES)]
GroupSize = Annotated[int, whole(2, MAX_DEVICES), whole_schema(2, MAX_DEVICES)]
SwitchesField = Annotated[int | tuple[int, ...], PlainValidator(_switches), WithJsonSchema(_SWITCHES)]
StateField = Annotated[
    str,
    word("state", [state.value for state in NodeState]),
    WithJsonSchema({"enum": [state.value for state in NodeState]}),
]

PlannerCount = Annotated[int, whole(1, MAX_PLANNERS), whole_schema(1, MAX_PLANNERS)]
DevicesPerUser = Annotated[int, whole(1, MAX_QUOTA), whole_schema(1, MAX_QUOTA)]
MaxPriority = Annotated[
    int, whole(-MAX_PRIORITY, MAX_PRIORITY), whole_schema(-MAX_PRIORITY, MAX_PRIORITY)
]
AllowedField = Annotated[
    str, scalar(parse_allowed), text_schema("^@?[A-Za-z0-9_.@+-]+$", "ada", "@vision")
]
Quantity = Annotated[
    PoolAmount,
    scalar(lambda text: parse_pool_amount(text, MAX_QUOTA)),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MAX_QUOTA},
                {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? *%$"},
            ],
            "examples": [8, "25%"],
        }
    ),
]
_bare_number = short_for(EVERY_TYPE)
PerType = Annotated[
    dict[str, Quantity],
    BeforeValidator(_bare_number, json_schema_input_type=Quantity | dict[str, Quantity]),
]
SharePerType = Annotated[
    dict[str, Number],
    BeforeValidator(_bare_number, json_schema_input_type=Number | dict[str, Number]),
]


def _link(text: str) -> Any:
    return Field(default_factory=LinkEntry, description=text)


class NvlinkEntry(FileEntry):
    """Groups of consecutive devices joined by NVLink."""

    group: GroupSize = Field(
        description="Devices of one group. Groups lie inside the switches (or sockets) or consist "
        "of whole ones.",
        examples=[4],
    )
    bandwidth: Rate = preset("40GB/s", "Between two devices of a group.")
    latency: Time = preset("2us", "Of the smallest message inside a group.")


class LinksEntry(FileEntry):
    """The links inside a node: between devices under one switch, one socket, one node."""

    switch: LinkField = _link("Under one switch. Default: 12GB/s, 5us (PCIe 3.0 x16 class).")
    socket: LinkField = _link("Between switches of one socket. Default: 10GB/s, 7us.")
    node: LinkField = _link("Between sockets of one node. Default: 8GB/s, 10us.")


class ConfigurationEntry(FileEntry):
    """Equal nodes, described once. Without `device` and `devices` they have CPUs only."""

    device: Name | None = optional("Device type.", examples=["P100"])
    generation: Name | None = optional(
        "Devices of one generation may work together. Default: the device type."
    )
    devices: DeviceCount = Field(
        default=0, description=f"Devices of one node, at most {MAX_DEVICES}.", examples=[8]
    )
    device_memory: Size = preset("0B", "Memory of one device; 0B: not stated.")
    device_rate: Operations | None = optional(
        "Operations/s of one device, single precision. Default: from the data sheet of a known type.",
        examples=["14T"],
    )
    device_bandwidth: Rate | None = optional(
        "Rate of the device's own memory. Default: as for device_rate."
    )
    sockets: PartCount = Field(default=1, description="CPU sockets of one node.")
    switches: SwitchesField | None = optional(
        "PCIe switches of the whole node, the devices divided evenly; or a list of the "
        "devices under each. Default: one per socket.",
        examples=[4, [2, 2, 4]],
    )
    nvlink: NvlinkEntry | None = optional("NVLink groups, if any.", examples=[{"group": 4}])
    links: LinksEntry = Field(
        default_factory=LinksEntry,
        description="Links inside the node, each a rate or {bandwidth, latency}.",
    )
    cores: SomeCores = Field(description="CPU cores of one node.", examples=[40])
    memory: SomeSize = Field(description="Memory of one node.", examples=["512GB"])
    nic: LinkField = _link("The node's network card. Default: 10Gbit/s, 10us.")
    host: LinkField = _link(
        "What one process sends or receives through the node's memory. Default: 3GB/s, 20us."
    )


class NodeEntry(FileEntry):
    """One node, or a range of nodes. A bare word is its configuration."""

    configuration: Name = Field(description="A name under `configurations`.", examples=["dgx1"])
    rack: Names = Field(
        default="r0", description="Rack, or a range of racks over which the nodes are divided evenly."
    )
    domain: Names = Field(
        default="d0", description="Network domain, or a range of domains, divided like racks."
    )
    state: StateField = Field(
        default="up",
        description="`up`; `draining` keeps its tasks and takes no new ones; `lost` is gone.",
    )


class NetworkEntry(FileEntry):
    """The links above the node: of each node, rack and domain to its siblings."""

    rack: LinkField = _link("A node's port, to the other nodes of its rack. Default: 10Gbit/s, 25us.")
    domain: LinkField = _link(
        "A rack's uplink, to the other racks of its domain, shared by its nodes. "
        "Default: 40Gbit/s, 50us."
    )
    cluster: LinkField = _link(
        "A domain's uplink, to the other domains, shared by its racks. Default: 100Gbit/s, 100us."
    )


PolicyText = Annotated[
    str,
    scalar(str),
    text_schema(r"^[A-Za-z0-9._-]+(:[A-Za-z0-9._=,-]+)?$", "fifo", "muster:makespan=0.6"),
]


class PoolEntry(FileEntry):
    """A pool. A bare number is for the cluster's only device type, a bare part for every type."""

    parent: Name = Field(default=ROOT, description="The pool above. Default: the cluster itself.")
    reservation: PerType = Field(
        default_factory=dict,
        description="Devices it can always reclaim, per device type, or a part of them such as 25%. "
        "Default: 0.",
    )
    share: SharePerType = Field(
        default_factory=dict,
        description="Its weight when idle devices are shared, for all types or per type. Default: 1.",
    )
    limit: PerType = Field(
        default_factory=dict,
        description="Most devices it may use, per device type; or a part. Default: none.",
    )
    allow: list[AllowedField] | None = optional(
        "Users, and Unix groups as @group, who may submit to it and the pools below; administrators "
        "always may. Default: everybody.",
        examples=[["ada", "@vision"]],
    )
    max_priority: MaxPriority | None = optional(
        "Highest priority of a user's job, here and in the pools below. Default: any."
    )
    devices_per_user: DevicesPerUser | None = optional(
        "Most devices of one user's jobs, here and in the pools below. Default: no limit."
    )
    policy: PolicyText | None = optional(
        "Policy that decides about its jobs and those of the pools below. Default: that of the pool "
        "above, at the top the cluster's.",
        examples=["fifo"],
    )
    budget: Number | None = optional(
        "Device-hours that its jobs and those of the pools below may use in a calendar month (UTC). "
        "Default: no limit."
    )
    aim: Name | None = optional(
        "What that policy aims at: balanced, mean, fair, makespan or per_device. Default: that of the "
        "pool above, unless it has a policy of its own.",
        examples=["makespan"],
    )


PatternField = Annotated[
    NamePattern, scalar(parse_pattern), text_schema(r"^[^\s]+$", "gpu[001-064]", "gpu*")
]
TemplateField = Annotated[
    PlaceTemplate, scalar(parse_template), text_schema(r"^[^\s]+$", "r1", "r{1}", "{label.rack}")
]


class MatchEntry(FileEntry):
    """Which nodes a rule is for: those for which everything given is so. A bare word is a name."""

    name: PatternField | None = optional(
        "Name of the node: a range, or with the wildcards * and ?.", examples=["gpu[001-064]"]
    )
    label: dict[str, PatternField] = Field(
        default_factory=dict,
        description="Labels of the engine or of the agent, values with ranges and wildcards.",
        examples=[{"zone": "a*"}],
    )
    device: Name | None = optional("Device type.", examples=["H100"])
    devices: CountsField | None = optional("Number of devices, or a range.", examples=[8])
    engine: Name | None = optional("Who brought the node: machines, ray, slurm.", examples=["slurm"])
    rack: PatternField | None = optional("Rack by the engine's topology.", examples=["switch*"])


MatchField = Annotated[
    MatchEntry,
    BeforeValidator(short_for("name"), json_schema_input_type=PatternField | MatchEntry),
]


class RuleEntry(FileEntry):
    """What nodes that join count as. The first rule that matches a node decides."""

    match: MatchField = Field(
        default_factory=MatchEntry,
        description="Which nodes. Default: all.",
        examples=[{"name": "gpu*", "device": "H100"}],
    )
    configuration: Name | None = optional(
        "A name under `configurations`. Default: derived from the node's hardware.", examples=["dgx1"]
    )
    rack: TemplateField | None = optional(
        "Rack: a name, with {1} for a part of match.name, {name}, {rack}, {engine} or {label.KEY}. "
        "Default: of the engine's topology, else r0.",
        examples=["r{1}"],
    )
    domain: TemplateField | None = optional(
        "Network domain, written like the rack. Default: d0.", examples=["{label.pod}"]
    )
    nic: LinkField | None = optional(
        "The network card of nodes without a configuration. Default: as the agent says."
    )


NodeField = Annotated[
    NodeEntry,
    BeforeValidator(short_for("configuration"), json_schema_input_type=Name | NodeEntry),
]


class ClusterEntry(FileEntry):
    """A cluster of nodes with accelerators (devices), and the pools that share it."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": ["configurations", "nodes"]}, {"required": ["rules"]}],
            "examples": [
                {
                    "configurations": {
                        "box": {"device": "P100", "devices": 4, "cores": 16, "memory": "64GB"}
                    },
                    "nodes": {"gpu[1-4]": "box"},
                }
            ],
        }
    )

    name: Name | None = optional("The cluster's name. Default: the file's.")
    configurations: dict[str, ConfigurationEntry] | None = optional(
        "Configuration sets by name: equal nodes described once. Required with `nodes`.",
        examples=[{"box": {"device": "P100", "devices": 4, "cores": 16, "memory": "64GB"}}],
    )
    nodes: dict[str, NodeField] | None = optional(
        "Nodes by name or range of names, for example gpu[001-064]. Required without `rules`.",
        examples=[{"gpu[1-4]": "box"}],
    )
    rules: list[RuleEntry] | None = optional(
        "What nodes that join count as; the first rule that matches decides. Without rules no other "
        "nodes than those under `nodes` may join.",
        examples=[[{"match": "gpu*", "rack": "r{1}"}]],
    )
    network: NetworkEntry = Field(default_factory=NetworkEntry, description="Links above the node.")
    pools: dict[str, PoolEntry] | None = optional("Pools by name. Default: one pool, `default`.")
    planners: PlannerCount = preset(
        "1",
        "Planners that decide beside each other, each for its own pools; more than one run in "
        "processes of their own. Default: 1.",
    )
