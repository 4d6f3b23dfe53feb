"""Patterns of names: ranges (`gpu[001-064]`) and wildcards (`gpu*`, `r?-n*`), whose parts can be used.

A part is what a bracket, a `*` or a run of `?` stands for; the first is 1. `r??-n*` splits r07-n12 into
07 and 12.
"""

import re
from dataclasses import dataclass, field

from muster.files.cluster.ranges import alternatives
from muster.files.errors import shown

MAX_RANGE = 10_000
"""Most names of one pattern."""

MAX_PARTS = 8
"""Ranges and wildcards of one pattern: the time to match grows with each."""

_LONGEST = 200
_EXAMPLE = "write for example gpu[001-064] or gpu*"
_PIECES = re.compile(r"(\[[^\[\]]*\]|\*+|\?+)")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern as written, and how it is matched."""

    text: str
    parts: int = field(compare=False)
    regex: re.Pattern[str] = field(compare=False, repr=False)

    def split(self, name: str) -> tuple[str, ...] | None:
        """Return the parts of a name that fits; None if it does not."""
        found = self.regex.fullmatch(name)
        return None if found is None else found.groups()

    def covers(self, other: "NamePattern") -> bool:
        """Whether every name that fits the other pattern fits this one; True only if that is sure.

        The other's wildcards are matched as characters: its `*` by a `*` alone, its `?` by a `?` too.
        """
        return self.text == other.text or all(
            self.regex.fullmatch(each) for each in alternatives(other.text)
        )


def parse_pattern(text: str) -> NamePattern:
    """Parse a pattern of names: `gpu7`, `gpu[001-064]`, `gpu*`."""
    if not text or len(text) > _LONGEST or not text.isprintable() or " " in text:
        raise ValueError(
            f"{shown(text)} is not a pattern of names; write for example gpu[001-064] or gpu*"
        )
    alternatives(text, MAX_RANGE)  # refuses what is no range, or too long
    pieces = _PIECES.split(text)
    if len(pieces) // 2 > MAX_PARTS:
        raise ValueError(f"{shown(text)} has more than {MAX_PARTS} ranges and wildcards")
    regex = "".join(_regex(piece) for piece in pieces)
    return NamePattern(text, len(pieces) // 2, re.compile(regex))


def _regex(piece: str) -> str:
    if piece.startswith("["):
        # The longest first: of n[1-12] a name n12 is not n1 with a rest.
        numbers = sorted(alternatives(piece), key=len, reverse=True)
        return f"({'|'.join(numbers)})"
    if piece.startswith("*"):
        return "(.*)"
    if piece.startswith("?"):
        return f"([^*]{{{len(piece)}}})"
    return re.escape(piece)
