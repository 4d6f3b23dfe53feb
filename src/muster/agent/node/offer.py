"""What the node offers: what NVML, the engine or its administrator says it has."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from muster.agent.node import machine
from muster.agent.node.devices import read_devices
from muster.agent.options import AgentError, AgentOptions
from muster.executors.accounts import own_user
from muster.executors.containers import engines_here
from muster.executors.gpus import Gpus
from muster.model.offer import NodeOffer
from muster.model.topology import MAX_DEVICES

VIRTUAL = "cpu"
"""The type of virtual devices without a type of their own."""

VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
"""What an engine sets to the devices that it has given to the agent."""


@dataclass(frozen=True, slots=True)
class Offered:
    """An offer without the addresses, which depend on the connection."""

    offer: NodeOffer
    names: tuple[str, ...] | None = None
    """How the node's own tools call each device; None: 0, 1, ..."""


def describe(options: AgentOptions, environ: Mapping[str, str] | None = None) -> Offered:
    """Return what to offer; `AgentError` if the node does not have what was asked for."""
    given = visible(os.environ if environ is None else environ)
    whole = NodeOffer(
        options.node,
        machine.millicores(),
        machine.memory(),
        labels=dict(options.labels),
        rack=options.rack,
        engine=options.engine,
        ports=options.ports,
        user=own_user() if os.geteuid() else "",
        containers=engines_here(),
    )
    gpus = None if options.virtual else _gpus(given)
    asked = options.devices or (gpus.count if gpus else 0)
    if asked > MAX_DEVICES:
        raise AgentError(
            f"a node has at most {MAX_DEVICES} devices, not {asked}; offer some with --devices, "
            "and the others by another agent, with CUDA_VISIBLE_DEVICES and --node"
        )
    if gpus is None and options.device_type and not options.virtual:
        # What the engine or the administrator says is believed: there are devices without NVML.
        return Offered(_counted(whole, options), given)
    if gpus is None:
        return Offered(_virtual(whole, options))
    return _real(whole, gpus, options, given)


def visible(environ: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the devices that the engine has given to this process; None: it says nothing."""
    for name in VISIBLE:
        value = environ.get(name)
        if value is not None and value not in ("all", "void"):
            return tuple(each.strip() for each in value.split(",") if each.strip() not in ("", "none"))
    return None


def _gpus(given: Sequence[str] | None) -> Gpus | None:
    found = read_devices(given)
    if found.mixed:
        raise AgentError(
            f"this machine has several types of devices ({found.mixed}); start an agent for each type, "
            "with CUDA_VISIBLE_DEVICES and --node"
        )
    return found.gpus


def _virtual(whole: NodeOffer, options: AgentOptions) -> NodeOffer:
    cores = max(1, whole.millicores // 1000)
    count = min(cores, MAX_DEVICES) if options.devices is None else options.devices
    kind = options.device_type or VIRTUAL
    memory = whole.memory // count if count else 0
    return replace(whole, devices=count, device_type=kind, device_memory=memory, virtual=True)


def _counted(whole: NodeOffer, options: AgentOptions) -> NodeOffer:
    if options.devices is None:
        raise AgentError(f"say how many devices of type {options.device_type} there are: --devices N")
    return replace(whole, devices=options.devices, device_type=options.device_type)


def _real(
    whole: NodeOffer, gpus: Gpus, options: AgentOptions, given: tuple[str, ...] | None
) -> Offered:
    count = gpus.count if options.devices is None else options.devices
    if count > gpus.count:
        raise AgentError(
            f"this machine has {gpus.count} GPUs, not {count}; "
            "for virtual devices on its cores add --virtual"
        )
    offer = replace(
        whole,
        devices=count,
        device_type=options.device_type or gpus.device_type,
        device_memory=gpus.memory,
        # Of a part of the devices the groups are unknown.
        sockets=len(gpus.sockets) if count == gpus.count else 1,
        switches=gpus.switches if count == gpus.count else (),
        nvlink=(gpus.nvlink or 0) if count == gpus.count else 0,
        nvlink_rate=gpus.nvlink_rate if count == gpus.count else 0,
    )
    return Offered(offer, given)
