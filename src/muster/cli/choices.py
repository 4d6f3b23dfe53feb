"""Values that options of several commands may have. Quick to import."""

from enum import StrEnum


class Output(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"


class Strategy(StrEnum):
    """Where jobs go: see docs/placement.md."""

    ADAPTIVE = "adaptive"
    PACK = "pack"
    SPREAD = "spread"
    EVEN = "even"
    ROOMY = "roomy"
