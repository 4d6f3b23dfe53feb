"""Racks and domains of nodes that join, made of what is known of them: `r{1}`, `{label.rack}`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from muster.files.errors import shown
from muster.files.source.quantity import parse_name
from muster.model.offer import NodeOffer

KNOWN = "{1} (a part of match.name), {name}, {rack}, {engine} or {label.KEY}"

_HOLE = re.compile(r"\{([^{}]*)\}")
_LABEL = "label."
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class PlaceTemplate:
    """Text with holes, and what fills them."""

    text: str

    @property
    def part(self) -> int:
        """The highest number of a part of the name that it uses; 0: none."""
        return max((int(hole) for hole in self._holes() if hole.isdecimal()), default=0)

    def fill(self, offer: NodeOffer, parts: Sequence[str]) -> str:
        """Return the text for a node; empty if the node does not say what a hole needs."""
        values = {hole: _value(hole, offer, parts) for hole in self._holes()}
        if not all(values.values()):
            return ""
        return _HOLE.sub(lambda found: values[found[1]], self.text)

    def _holes(self) -> list[str]:
        return _HOLE.findall(self.text)


def parse_template(text: str) -> PlaceTemplate:
    """Parse the name of a rack or domain, with or without holes."""
    for hole in _HOLE.findall(text):
        if not _is_known(hole):
            raise ValueError(f"{shown('{' + hole + '}')} is unknown; use {KNOWN}")
    fixed = _HOLE.sub("x", text)
    if len(text) > _LONGEST or "{" in fixed or "}" in fixed:
        raise ValueError(f"{shown(text)} has an unbalanced brace; use {KNOWN}")
    parse_name(fixed)
    return PlaceTemplate(text)


def _is_known(hole: str) -> bool:
    if hole.isdecimal():
        return int(hole) > 0
    return hole in ("name", "rack", "engine") or hole.removeprefix(_LABEL) not in ("", hole)


def _value(hole: str, offer: NodeOffer, parts: Sequence[str]) -> str:
    if hole.isdecimal():
        return parts[int(hole) - 1] if int(hole) <= len(parts) else ""
    if hole.startswith(_LABEL):
        return offer.labels.get(hole.removeprefix(_LABEL), "")
    return str(getattr(offer, hole))
