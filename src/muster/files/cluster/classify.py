"""What an arriving node counts as: its configuration set, rack and domain."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import ValidationError

from muster.files.cluster.hardware import derived, named_by_content, rounded
from muster.files.cluster.rules import Rule
from muster.files.errors import FieldError, InputError, dotted, shown
from muster.files.source.quantity import parse_name
from muster.model.cluster import Node, NodeState
from muster.model.offer import NodeOffer
from muster.model.topology import MAX_DEVICES, ConfigurationSet, Link

DEFAULT_RACK = "r0"
DEFAULT_DOMAIN = "d0"

NEAR = 0.9
"""Part of the memory that a file states which a node may have: nobody writes down the kernel's part."""


class OfferError(InputError):
    """A node that cannot be part of the cluster; `str()` is one line."""

    def __init__(self, offer: NodeOffer, problem: str) -> None:
        super().__init__(f"node {shown(offer.name)} {problem}")


@dataclass(frozen=True, slots=True)
class Classifier:
    """Says what nodes count as: by the file's list, by its rules, else by their hardware."""

    rules: tuple[Rule, ...] = ()
    listed: Mapping[str, Node] = field(default_factory=dict)
    configurations: Mapping[str, ConfigurationSet] = field(default_factory=dict)
    """Of the listed nodes."""
    closed: bool = False
    """Whether only listed nodes may join."""

    def classify(self, offer: NodeOffer) -> tuple[Node, ConfigurationSet]:
        """Return the node, everything on it free, and its configuration set; OfferError is one line."""
        _refuse_indescribable(offer)
        if offer.name in self.listed:
            return self._as_listed(offer, self.listed[offer.name])
        if self.closed:
            raise OfferError(
                offer,
                "is not in the cluster file; add it under nodes, or add rules for nodes that join",
            )
        rule, parts = self._rule(offer)
        if rule is None:
            kind = _derived(offer)
            return _node(offer, kind, offer.rack, ""), kind
        kind = _by_rule(offer, rule)
        return _node(offer, kind, rule.rack(offer, parts), rule.domain(offer, parts)), kind

    def reason(self, offer: NodeOffer) -> str:
        """Return who says what a node counts as."""
        if offer.name in self.listed:
            return "listed under nodes"
        rule, _ = self._rule(offer)
        return "no rule: its hardware" if rule is None else f"rule {rule.number}"

    def _as_listed(self, offer: NodeOffer, node: Node) -> tuple[Node, ConfigurationSet]:
        kind = _checked(offer, self.configurations[node.configuration], "the cluster file")
        placed = replace(node, state=NodeState.UP, offer=offer, configuration=kind.name)
        return replace(placed, millicores=kind.millicores, memory=kind.memory), kind

    def _rule(self, offer: NodeOffer) -> tuple[Rule | None, tuple[str, ...]]:
        """Return the first rule that matches, and the parts of the name."""
        for rule in self.rules:
            parts = rule.parts(offer)
            if parts is not None:
                return rule, parts
        return None, ()


def _by_rule(offer: NodeOffer, rule: Rule) -> ConfigurationSet:
    if rule.kind is not None:
        return _checked(offer, rule.kind, f"rule {rule.number}")
    return _derived(offer, rule.nic())


def _checked(offer: NodeOffer, kind: ConfigurationSet, who: str) -> ConfigurationSet:
    """Return the configuration set of a node that has its devices; the smaller of cores and memory."""
    if (offer.devices, offer.device_type if offer.devices else "") != (kind.devices, kind.device_type):
        offered, has = (
            _devices(offer.devices, offer.device_type),
            _devices(kind.devices, kind.device_type),
        )
        raise OfferError(offer, f"offers {offered}, but {who} says {kind.name}, which has {has}")
    cores = min(kind.millicores, offer.millicores)
    memory = kind.memory if offer.memory >= NEAR * kind.memory else offer.memory
    if (cores, memory) == (kind.millicores, kind.memory):
        return kind
    return named_by_content(replace(kind, millicores=cores, memory=rounded(memory)), kind.name)


def _devices(count: int, device_type: str) -> str:
    return f"{count} {device_type}" if count else "no devices"


def _derived(offer: NodeOffer, nic: Link | None = None) -> ConfigurationSet:
    try:
        return derived(offer, nic)
    except FieldError as error:
        raise OfferError(offer, f"cannot join: {dotted(error.loc)}: {error.problem}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = first["msg"].removeprefix("Value error, ")
        raise OfferError(offer, f"cannot join: {dotted(first['loc'])}: {problem}") from None


def _refuse_indescribable(offer: NodeOffer) -> None:
    try:
        parse_name(offer.name)
        parse_name(offer.device_type or "none")
    except ValueError as error:
        raise OfferError(offer, f"cannot join: {error}") from None
    if offer.devices > MAX_DEVICES:
        raise OfferError(offer, f"offers {offer.devices} devices; a node has at most {MAX_DEVICES}")


def _node(offer: NodeOffer, kind: ConfigurationSet, rack: str, domain: str) -> Node:
    rack, domain = _as_name(rack, DEFAULT_RACK), _as_name(domain, DEFAULT_DOMAIN)
    return Node(
        name=offer.name,
        configuration=kind.name,
        # One rack is in one domain: outside the default domain its name has the domain's.
        rack=rack if domain == DEFAULT_DOMAIN else f"{domain}/{rack}",
        domain=domain,
        free=kind.all_devices,
        millicores=kind.millicores,
        memory=kind.memory,
        offer=offer,
    )


def _as_name(text: str, default: str) -> str:
    """Return an engine's word as a name: other characters become dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:63] or default
