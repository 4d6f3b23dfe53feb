"""The rules of a cluster file: which nodes count as what. The first that matches a node decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.files.cluster.cluster_entries import MatchEntry, RuleEntry
from muster.files.errors import FieldError, Loc, one_of
from muster.files.source.tree import DEFAULT_NIC, link_of
from muster.model.offer import NodeOffer
from muster.model.topology import ConfigurationSet, Link

MAX_RULES = 1_000
"""Each node that joins is compared with all of them."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its number in the file, from 1."""

    number: int
    entry: RuleEntry
    kind: ConfigurationSet | None
    """What its nodes are; None: what their hardware is."""

    def parts(self, offer: NodeOffer) -> tuple[str, ...] | None:
        """Return the parts of a matching node's name; None if the rule does not match."""
        match = self.entry.match
        parts = () if match.name is None else match.name.split(offer.name)
        return parts if parts is not None and _matches(match, offer) else None

    def rack(self, offer: NodeOffer, parts: Sequence[str]) -> str:
        """Return the node's rack; empty: unknown."""
        rack = self.entry.rack
        return (rack.fill(offer, parts) if rack else "") or offer.rack

    def domain(self, offer: NodeOffer, parts: Sequence[str]) -> str:
        """Return the node's domain; empty: unknown."""
        return self.entry.domain.fill(offer, parts) if self.entry.domain else ""

    def nic(self) -> Link | None:
        """Return the network card that its nodes have, if it says."""
        return None if self.entry.nic is None else link_of(self.entry.nic, DEFAULT_NIC)


def rules_of(
    entries: Sequence[RuleEntry], configurations: Mapping[str, ConfigurationSet]
) -> tuple[Rule, ...]:
    """Return the rules of a file; FieldError for one that no node could ever match."""
    if not entries:
        raise FieldError(
            ("rules",), "must have at least one rule; write [{}] to take every node by its hardware"
        )
    if len(entries) > MAX_RULES:
        raise FieldError(("rules",), f"has {len(entries)} rules, more than {MAX_RULES}")
    found: list[Rule] = []
    for place, entry in enumerate(entries):
        try:
            rule = Rule(place + 1, entry, _kind(entry, configurations))
            _refuse_contradiction(rule)
            _refuse_unreachable(rule, found)
        except FieldError as error:
            raise error.below("rules", place) from None
        found.append(rule)
    return tuple(found)


def _matches(match: MatchEntry, offer: NodeOffer) -> bool:
    """Whether a node is as described, whatever its name."""
    counts = match.devices
    return (
        (match.device is None or match.device == offer.device_type)
        and (counts is None or counts.least <= offer.devices <= counts.most)
        and (match.engine is None or match.engine == offer.engine)
        and (match.rack is None or match.rack.split(offer.rack) is not None)
        and all(
            key in offer.labels and pattern.split(offer.labels[key]) is not None
            for key, pattern in match.label.items()
        )
    )


def _kind(entry: RuleEntry, configurations: Mapping[str, ConfigurationSet]) -> ConfigurationSet | None:
    if entry.configuration is None:
        return None
    if entry.configuration not in configurations:
        raise FieldError(
            ("configuration",), one_of(entry.configuration, "configuration", configurations)
        )
    return configurations[entry.configuration]


def _refuse_contradiction(rule: Rule) -> None:
    match, kind = rule.entry.match, rule.kind
    if match.device is not None and match.devices is not None and not match.devices.most:
        raise FieldError(("match",), f"fits no node: none has 0 devices of type {match.device}")
    for field in ("rack", "domain"):
        template = getattr(rule.entry, field)
        _refuse_missing_part((field,), template.part if template else 0, match)
    if kind is None:
        return
    has = f"{kind.name} has {kind.devices} {kind.device_type or 'devices'}"
    if match.device not in (None, kind.device_type):
        raise FieldError(("match", "device"), f"fits no node: {has}, not {match.device}")
    counts = match.devices
    if counts is not None and not counts.least <= kind.devices <= counts.most:
        raise FieldError(("match", "devices"), f"fits no node: {has}")
    if rule.entry.nic is not None:
        raise FieldError(("nic",), f"belongs to configuration {kind.name}, which the rule names")


def _refuse_missing_part(loc: Loc, part: int, match: MatchEntry) -> None:
    parts = match.name.parts if match.name else 0
    if part > parts:
        problem = f"uses part {part} of the name, but match.name has {parts or 'none'}"
        raise FieldError(loc, f"{problem}; a range, a * or a run of ? is a part")


def _refuse_unreachable(rule: Rule, earlier: Sequence[Rule]) -> None:
    for other in earlier:
        if _covers(other.entry.match, rule.entry.match):
            problem = f"never applies: rule {other.number} matches all of its nodes; put it before that"
            raise FieldError(("match",), problem)


def _covers(wide: MatchEntry, narrow: MatchEntry) -> bool:
    """Whether every node that matches `narrow` matches `wide`."""
    for field in ("name", "rack"):
        outer, inner = getattr(wide, field), getattr(narrow, field)
        if outer is not None and (inner is None or not outer.covers(inner)):
            return False
    for field in ("device", "engine"):
        if getattr(wide, field) not in (None, getattr(narrow, field)):
            return False
    if wide.devices is not None:
        inside = narrow.devices
        if inside is None or not wide.devices.least <= inside.least <= inside.most <= wide.devices.most:
            return False
    return all(
        key in narrow.label and pattern.covers(narrow.label[key]) for key, pattern in wide.label.items()
    )
