"""Ranges of names: `gpu[001-064]`, `n[1-3,7]`, `r[1-4]n[01-16]`."""

import re
from itertools import product
from math import prod

from muster.files.errors import repeated, shown
from muster.files.source.quantity import parse_name

MAX_NAMES = 100_000
"""Most names of one file: ten times the largest cluster that the project benchmarks."""

_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_PIECE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_EXAMPLE = "write for example gpu[001-064] or gpu[1-3,7]"


def expand(text: str) -> tuple[str, ...]:
    """Return every name of a pattern, in order; a text without brackets is itself."""
    names = [parse_name(name) for name in alternatives(text)]
    again = repeated(names)
    if again is not None:
        raise ValueError(f"{shown(text)} names {shown(names[again])} twice")
    return tuple(names)


def alternatives(text: str, most: int = MAX_NAMES) -> list[str]:
    """Return every text that the brackets of a text stand for, in order."""
    parts = _BRACKET.split(text)
    if any("[" in part or "]" in part for part in parts[::2]):
        raise ValueError(f"{shown(text)} has an unbalanced bracket; {_EXAMPLE}")
    pieces = [_pieces(inside, text) for inside in parts[1::2]]
    count = prod(sum(int(last) - int(first) + 1 for first, last in each) for each in pieces)
    if count > most:
        raise ValueError(f"{shown(text)} expands to {count} names, more than {most}")
    return [_joined(parts[::2], numbers) for numbers in product(*map(_numbers, pieces))]


def _pieces(inside: str, text: str) -> list[tuple[str, str]]:
    """Return the (first, last) numbers of one bracket as text: leading zeros matter."""
    pieces = []
    for piece in inside.split(","):
        found = _PIECE.fullmatch(piece.strip())
        if not found:
            raise ValueError(f"{shown(text)} is not a range of names; {_EXAMPLE}")
        first, last = found[1], found[2] or found[1]
        if int(first) > int(last):
            raise ValueError(f"{shown(text)} runs backwards from {first} to {last}; {_EXAMPLE}")
        if last.startswith("0") and len(last) != len(first):
            raise ValueError(f"{shown(text)} has {first} and {last} of different width; {_EXAMPLE}")
        pieces.append((first, last))
    return pieces


def _numbers(pieces: list[tuple[str, str]]) -> list[str]:
    """Return the numbers of one bracket, padded like the first of each piece."""
    return [
        str(number).zfill(len(first))
        for first, last in pieces
        for number in range(int(first), int(last) + 1)
    ]


def _joined(fixed: list[str], numbers: tuple[str, ...]) -> str:
    return "".join(a + b for a, b in zip(fixed, (*numbers, ""), strict=True))
