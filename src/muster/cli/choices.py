"""Values of options that several commands share. Quick to import."""

from enum import StrEnum


class Output(StrEnum):
    """How one answer is printed."""

    TEXT = "text"
    JSON = "json"


class ListFormat(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class Resize(StrEnum):
    """How a running job is resized."""

    LIVE = "live"
    RESTART = "restart"


class PlacementStrategy(StrEnum):
    """Where jobs are placed (docs/explanation/placement.md)."""

    ADAPTIVE = "adaptive"
    PACK = "pack"
    SPREAD = "spread"
    EVEN = "even"
    ROOMY = "roomy"
