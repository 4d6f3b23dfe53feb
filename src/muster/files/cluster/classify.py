"""What an arriving node counts as: its configuration set, rack and domain."""

import re
from dataclasses import dataclass

from pydantic import ValidationError

from muster.files.cluster.hardware import derived
from muster.files.errors import FieldError, InputError, dotted, shown
from muster.files.source.quantity import parse_name
from muster.model.cluster import Node
from muster.model.offer import NodeOffer
from muster.model.topology import MAX_DEVICES, ConfigurationSet

DEFAULT_RACK = "r0"
DEFAULT_DOMAIN = "d0"


class OfferError(InputError):
    """A node that cannot be part of the cluster; `str()` is one line."""

    def __init__(self, offer: NodeOffer, problem: str) -> None:
        super().__init__(f"node {shown(offer.name)} {problem}")


@dataclass(frozen=True, slots=True)
class Classifier:
    """Says what nodes count as. By default by their hardware alone."""

    def classify(self, offer: NodeOffer) -> tuple[Node, ConfigurationSet]:
        """Return the node, everything on it free, and its configuration set; OfferError is one line."""
        _refuse_indescribable(offer)
        kind = self._kind(offer)
        return _node(offer, kind, offer.rack, ""), kind

    def _kind(self, offer: NodeOffer) -> ConfigurationSet:
        try:
            return derived(offer)
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
